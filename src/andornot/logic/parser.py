"""Parse the text of a formula into programs; errors point at the mistake.

    condition = both { "or" both }
    both      = one { "and" one }
    one       = "not" one | weight "*" factor | term | "(" condition ")"
    term      = share { "|" share }
    share     = factor { ("&" | "-") factor }
    factor    = ("~" | "!") factor | "(" term ")" | atom
              | "at_least" "(" k { "," term } ")" | "like" "(" term { "," term } ")"
    atom      = [ ("word" | "image") ":" ] name [ "[" left "," top "," right "," bottom "]" ]

Operator stacks instead of recursive descent, which would end in a RecursionError on deep nesting. Both levels are read
by one grammar that lets conditions into terms, so that the error can say what to write instead.
"""

from bisect import bisect_left
from typing import Final, NamedTuple, NoReturn

from . import program as p
from .atoms import KINDS, Atom, Crop, read_number, write_number
from .program import Builder, Program, Value
from .tokens import FormulaError, FormulaErrorCode, Token, quote, tokens

MAX_CHARACTERS: Final = 10_000
MAX_NESTING: Final = 200
LEAST_WEIGHT: Final = 0.001
MOST_WEIGHT: Final = 1000

_WEIGHT: Final = "*"
# The higher the number the stronger it binds.
_LEVELS: Final = {"or": 1, "and": 2, "not": 3, "|": 4, "&": 5, "-": 5, "~": 6, _WEIGHT: 6}
_SYMBOLS: Final = {"|": p.OR, "&": p.AND, "-": p.MINUS}
_JOINING_WORDS: Final = {"or": p.OR, "and": p.AND}
_CALLS: Final = (p.AT_LEAST, p.LIKE)
_WORD_FOR: Final = {"|": "or", "&": "and", "-": "and not"}
_SYMBOL_FOR: Final = {"or": "|", "and": "&", "not": "~"}
_MOST_PIXELS: Final = 1_000_000
_MOST_DIGITS: Final = len(str(MAX_CHARACTERS))
_SUGGESTED_CHARACTERS: Final = 60
_FOUR_NUMBERS: Final = "a crop has four numbers, name[left, top, right, bottom]; a name with brackets goes in quotes"


class Mention(NamedTuple):
    """An atom in a formula, and its name, from the character `start` up to `end`, which is the first one behind it."""

    name: str
    start: int
    end: int
    atom: Atom


class ParsedTerm(NamedTuple):
    """The program of a term, its mentions where it stands first, and where each operation stands first."""

    program: Program
    mentions: tuple[Mention, ...]
    positions: dict[int, int]


class Parsed(NamedTuple):
    """The program of a condition, its terms, each once, every mention, and where each operation stands first."""

    condition: Program
    terms: tuple[ParsedTerm, ...]
    mentions: tuple[Mention, ...]
    positions: dict[int, int]


def parse(text: str) -> Parsed:
    """Read a formula, or raise a FormulaError."""
    if len(text) > MAX_CHARACTERS:
        message = f"the formula has {len(text):,} characters, more than {MAX_CHARACTERS:,}"
        raise FormulaError(message, text, MAX_CHARACTERS, code="too-long")
    return _Parser(text).parse()


class _Operand(NamedTuple):
    """What was read from `start` to `end`: a node of terms or of conditions.

    `why` is the word or the weight that makes it a condition. A weight of 1 does, and adds no node.
    """

    node: int
    start: int
    end: int
    why: Token | None = None
    is_term: bool = True


class _Pending(NamedTuple):
    """An operator or bracket that waits for its operands; `operands` is how many were there before it."""

    token: Token
    operands: int
    # The k of an at_least, the factor of a weight.
    value: float = 0

    @property
    def is_bracket(self) -> bool:
        return self.token.kind in ("(", *_CALLS)


class _Level:
    """The nodes of terms, or those of conditions, and where each of them stands first."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.positions: dict[int, int] = {}

    def add(self, position: int, op: str, args: list[int], value: Value = 0) -> int:
        index = self.builder.add(op, args, value)
        self.positions.setdefault(index, position)
        return index

    def part(self, root: int) -> tuple[Program, dict[int, int]]:
        kept = p.needed(self.builder.nodes, root)
        return p.part(self.builder.nodes, kept), {new: self.positions[old] for new, old in enumerate(kept)}


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._next = 0
        self._operands: list[_Operand] = []
        self._pending: list[_Pending] = []
        self._nesting = 0
        self._mentions: list[Mention] = []
        self._of_terms = _Level()
        self._of_conditions = _Level()
        # By their program: each term once, with the number that its nodes have in the condition.
        self._terms: dict[Program, tuple[int, ParsedTerm]] = {}

    def parse(self) -> Parsed:
        while True:
            self._read_operand()
            if self._read_operator().kind == "end":
                return self._parsed(self._as_condition(self._operands[0]))

    def _parsed(self, root: int) -> Parsed:
        """Return the result, with the terms in the order of the text instead of the operations."""
        nodes, positions = self._of_conditions.part(root)
        terms = sorted(self._terms.values(), key=lambda numbered: _start(numbered[1].mentions[0]))
        moved = {old: new for new, (old, _) in enumerate(terms)}
        condition = tuple(node._replace(value=moved[int(node.value)]) if node.op == p.TERM else node for node in nodes)
        return Parsed(condition, tuple(term for _, term in terms), tuple(self._mentions), positions)

    def _take(self) -> Token:
        token = self._tokens[self._next]
        # The end is never passed.
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    @property
    def _following(self) -> str:
        return self._tokens[self._next].kind

    # --- operands ---------------------------------------------------------------------------------------------------

    def _read_operand(self) -> None:
        """Read up to and including one atom, with the NOTs, weights and opening brackets before it."""
        while True:
            token = self._take()
            if self._following == _WEIGHT and token.kind not in ("(", ",", "~", "not"):
                self._push(self._take()._replace(start=token.start), self._read_weight(token))
            elif token.kind == "-" and self._tokens[min(self._next + 1, len(self._tokens) - 1)].kind == _WEIGHT:
                self._refuse_weight(f"-{self._tokens[self._next].name}", token)
            elif token.kind == "name":
                self._read_atom(token)
                return
            elif token.kind in ("~", "not", "("):
                self._push(token)
            elif token.kind in _CALLS and self._following == "(":
                self._take()
                self._push(token, self._read_count() if token.kind == p.AT_LEAST else 0)
                if token.kind == p.LIKE and self._following == ")":
                    message = "like needs an image or more: like(a, b, c)"
                    raise self._error(message, self._tokens[self._next].start, "missing-operand")
            else:
                self._refuse_operand(token)

    def _read_atom(self, token: Token) -> None:
        kind, name, crop = "", token, None
        if self._following == ":" and not token.is_quoted:
            kind, name = self._read_kind(token)
        end = name.end
        if self._following == "[":
            bracket = self._take()
            if kind == "word":
                raise self._error("a crop is of an image, and this is a word", bracket.start, "crop-of-word")
            crop, end = self._read_crop(bracket)
        atom = Atom(name.name, kind, crop)
        self._mentions.append(Mention(atom.name, token.start, end, atom))
        index = self._of_terms.add(token.start, p.NAME, [], str(atom))
        self._operands.append(_Operand(index, token.start, end))

    def _read_kind(self, token: Token) -> tuple[str, Token]:
        colon, kind = self._take(), token.name.lower()
        if kind not in KINDS:
            message = f'before ":" stands "word" or "image", not {quote(token.name)}; a name with ":" goes in quotes'
            raise self._error(message, token.start, "bad-kind")
        name = self._take()
        if name.kind != "name":
            message = f'expected a name behind "{kind}:", found {self._describe(name)}'
            position = name.start if name.kind != "end" else colon.end
            raise self._error(message + _in_quotes(name), position, "missing-operand")
        return kind, name

    def _read_crop(self, bracket: Token) -> tuple[Crop, int]:
        numbers: list[tuple[float, int]] = []
        while True:
            token = self._take()
            if token.kind == "-" and self._following == "name":
                message = f"a crop begins at 0: {quote(f'-{self._tokens[self._next].name}')} is outside of the image"
                raise self._error(message, token.start, "bad-crop")
            number = None if token.is_quoted or token.kind != "name" else read_number(token.name)
            if number is None:
                raise self._error(_FOUR_NUMBERS, token.start, "bad-crop")
            numbers.append((number, token.start))
            token = self._take()
            if token.kind != "," and not (token.kind == "]" and len(numbers) == 4):
                raise self._error(_FOUR_NUMBERS, token.start if token.kind != "end" else bracket.start, "bad-crop")
            if token.kind == "]":
                return self._checked_crop(numbers, bracket.start), token.end

    def _checked_crop(self, numbers: list[tuple[float, int]], start: int) -> Crop:
        if max(number for number, _ in numbers) > 1:
            largest, _ = max(numbers)
            for number, position in numbers:
                shown = write_number(min(number, 10.0 * _MOST_PIXELS))
                if number > _MOST_PIXELS:
                    raise self._error(f"no image is wider than {_MOST_PIXELS:,} pixels", position, "bad-crop")
                if not number.is_integer():
                    wrong = "is outside of the image" if number > 1 else f"does not go with {write_number(largest)}"
                    message = f"{shown} {wrong}: a crop is all in fractions from 0 to 1, or all in whole pixels"
                    raise self._error(message, position, "bad-crop")
            crop = Crop(*(int(number) for number, _ in numbers))
        else:
            crop = Crop(*(number for number, _ in numbers))
        for low, high in (("left", "right"), ("top", "bottom")):
            if getattr(crop, low) >= getattr(crop, high):
                edges = f"{low} {write_number(getattr(crop, low))}, {high} {write_number(getattr(crop, high))}"
                message = f"the crop is empty, with {edges}; it is [left, top, right, bottom]"
                raise self._error(message, start, "bad-crop")
        return crop

    def _read_weight(self, token: Token) -> float:
        factor = None if token.is_quoted else read_number(token.name)
        if factor is None or not LEAST_WEIGHT <= factor <= MOST_WEIGHT:
            self._refuse_weight(self._text[token.start : token.end], token)
        return factor

    def _refuse_weight(self, text: str, token: Token) -> NoReturn:
        bounds = f"from {write_number(LEAST_WEIGHT)} to {MOST_WEIGHT:,}"
        message = f"a weight is a number {bounds}, such as 2 or 0.5 in 2*a, not {quote(text)}"
        raise self._error(message, token.start, "bad-weight")

    def _read_count(self) -> int:
        token = self._take()
        digits = token.name.lstrip("0")
        if not (digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS):
            message = "at_least takes a whole number from 1 first: at_least(2, a, b, c)"
            raise self._error(message, token.start, "bad-at-least-count")
        comma = self._take()
        if comma.kind != ",":
            message = f'expected ", " and the operands: at_least({token.name}, a, b, c)'
            raise self._error(message, comma.start, "bad-at-least-count")
        return int(digits)

    # --- operators --------------------------------------------------------------------------------------------------

    def _read_operator(self) -> Token:
        """Read the closing brackets after an operand, and the operator or comma or end that follows."""
        while True:
            token = self._take()
            if token.kind in _SYMBOLS or token.kind in _JOINING_WORDS:
                self._apply_pending(_LEVELS[token.kind])
                self._pending.append(_Pending(token, len(self._operands)))
                return token
            if token.kind not in (")", ",", "end"):
                self._refuse_operator(token)
            self._apply_pending(0)
            bracket = self._pending[-1] if self._pending else None
            if token.kind == "end":
                if bracket:
                    opening = self._text.index("(", bracket.token.start)
                    raise self._error('this "(" is never closed', opening, "unclosed-bracket")
                return token
            if token.kind == ",":
                if not bracket or bracket.token.kind not in _CALLS:
                    message = '"," stands only in at_least(…) and in like(…): write "and" or "or"'
                    raise self._error(message, token.start, "unexpected-comma")
                return token
            if not bracket:
                raise self._error('this ")" closes nothing', token.start, "unmatched-bracket")
            self._close(bracket, token)

    def _push(self, token: Token, value: float = 0) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._error(f"nested deeper than {MAX_NESTING} levels", token.start, "too-deep")
        self._pending.append(_Pending(token, len(self._operands), value))

    def _apply_pending(self, level: int) -> None:
        """Apply the operators that bind at least as strongly as what comes next, back to a bracket."""
        while self._pending and not self._pending[-1].is_bracket:
            token, _, value = self._pending[-1]
            if _LEVELS[token.kind] < level:
                return
            self._pending.pop()
            right = self._operands.pop()
            if token.kind in _SYMBOLS or token.kind in _JOINING_WORDS:
                self._operands.append(self._joined(self._operands.pop(), token, right))
            else:
                self._nesting -= 1
                self._operands.append(self._prefixed(token, value, right))

    def _joined(self, left: _Operand, token: Token, right: _Operand) -> _Operand:
        if token.kind in _JOINING_WORDS:
            args = [self._as_condition(left), self._as_condition(right)]
            index = self._of_conditions.add(token.start, _JOINING_WORDS[token.kind], args)
            return _Operand(index, left.start, right.end, token, is_term=False)
        if left.why or right.why:
            self._refuse_condition_beside(left, token, right)
        index = self._of_terms.add(token.start, _SYMBOLS[token.kind], [left.node, right.node])
        return _Operand(index, left.start, right.end)

    def _prefixed(self, token: Token, value: float, right: _Operand) -> _Operand:
        if token.kind == "~":
            if right.why:
                self._refuse_condition_negated(token, right)
            return _Operand(self._of_terms.add(token.start, p.NOT, [right.node]), token.start, right.end)
        if token.kind == "not":
            index = self._of_conditions.add(token.start, p.NOT, [self._as_condition(right)])
            return _Operand(index, token.start, right.end, token, is_term=False)
        if right.why:
            self._refuse_condition_weighted(token, value, right)
        if value == 1:
            return right._replace(start=token.start, why=token)
        index = self._of_conditions.add(token.start, p.WEIGHT, [self._as_condition(right)], value)
        return _Operand(index, token.start, right.end, token, is_term=False)

    def _close(self, bracket: _Pending, closing: Token) -> None:
        self._pending.pop()
        self._nesting -= 1
        token = bracket.token
        if token.kind == "(":
            self._operands[-1] = self._operands[-1]._replace(start=token.start, end=closing.end)
            return
        args = self._operands[bracket.operands :]
        del self._operands[bracket.operands :]
        for arg in args:
            if arg.why:
                self._refuse_condition_within(token.kind, arg.why)
        if bracket.value > len(args):
            message = f"at_least({bracket.value}, …) needs {bracket.value} operands or more, and has {len(args)}"
            raise self._error(message, token.start, "bad-at-least-count")
        index = self._of_terms.add(token.start, token.kind, [arg.node for arg in args], bracket.value)
        self._operands.append(_Operand(index, token.start, closing.end))

    def _as_condition(self, operand: _Operand) -> int:
        """Return the node of a condition; equal terms share one."""
        if not operand.is_term:
            return operand.node
        program, positions = self._of_terms.part(operand.node)
        if program not in self._terms:
            first, last = (bisect_left(self._mentions, at, key=_start) for at in (operand.start, operand.end))
            term = ParsedTerm(program, tuple(self._mentions[first:last]), positions)
            self._terms[program] = len(self._terms), term
        return self._of_conditions.add(operand.start, p.TERM, [], self._terms[program][0])

    # --- errors ---------------------------------------------------------------------------------------------------

    def _error(self, message: str, position: int, code: FormulaErrorCode) -> FormulaError:
        return FormulaError(message, self._text, position, code=code)

    def _refuse_condition_beside(self, left: _Operand, token: Token, right: _Operand) -> NoReturn:
        """Raise the error for `(a and b) | c` and the like."""
        reasons = [operand.why for operand in (left, right) if operand.why]
        why = next((reason for reason in reasons if reason.kind != _WEIGHT), reasons[0])
        word = _WORD_FOR[token.kind]
        written = f"{self._piece(left)} {word} {self._piece(right)}"
        if why.kind == _WEIGHT:
            factor = self._text[why.start : why.end - 1].strip()
            whole = f"{factor}*({self._unweighted(left)} {token.kind} {self._unweighted(right)})"
            message = f"a weight counts a whole term: write {whole}, or {written}"
        else:
            message = f'write {written}: "{token.kind}" joins images, "{word}" joins conditions'
        raise self._error(message, token.start, "condition-in-term")

    def _refuse_condition_negated(self, token: Token, right: _Operand) -> NoReturn:
        message = f'write not {self._piece(right)}: "~" is for images, "not" for conditions'
        raise self._error(message, token.start, "condition-in-term")

    def _refuse_condition_weighted(self, token: Token, value: float, right: _Operand) -> NoReturn:
        assert right.why is not None
        factor = write_number(value)
        if right.why.kind == _WEIGHT:
            message = "a term has one weight"
        elif right.why.kind == "not":
            message = f'the weight stands behind "not": write not {factor}*a'
        else:
            message = f"a weight counts a term, not a condition: write {factor}*a {right.why.kind} {factor}*b"
        raise self._error(message, token.start, "bad-weight")

    def _refuse_condition_within(self, call: str, why: Token) -> NoReturn:
        if why.kind == _WEIGHT:
            message = f"a weight counts a whole term: write it before {call}(…)"
        else:
            message = f'{call}(…) is of images, not of conditions: write "{_SYMBOL_FOR[why.kind]}" for "{why.kind}"'
        raise self._error(message, why.start, "condition-in-term")

    def _refuse_operand(self, token: Token) -> NoReturn:
        before = self._tokens[self._tokens.index(token) - 1] if token is not self._tokens[0] else None
        code: FormulaErrorCode = "missing-operand"
        if len(self._tokens) == 1:
            code = "empty-formula"
            message = "the formula is empty: write an image or a word, such as beach.jpg or dog"
        elif before and before.kind == token.kind and token.kind in "&|" and before.end == token.start:
            code = "duplicate-operator"
            message = f'write "{token.kind}" once, or "{_WORD_FOR[token.kind]}"'
        elif token.kind in _CALLS:
            message = f'expected "(" behind "{token.kind}"' + _in_quotes(token)
        else:
            message = f'expected a name or "(", found {self._describe(token)}' + _in_quotes(token)
            if token.kind == "-":
                message += ', which stands between two operands (NOT is "~")'
        raise self._error(message, token.start, code)

    def _refuse_operator(self, token: Token) -> NoReturn:
        before = self._tokens[self._tokens.index(token) - 1]
        if token.kind == _WEIGHT:
            raise self._error("a weight stands before its term, as in 2*a", token.start, "bad-weight")
        signs = '"and" or "or"' if token.kind == "not" else '"and", "or", "&", "|" or "-"'
        message = f"expected {signs} before {self._describe(token)}"
        if before.kind == token.kind == "name":
            message += f"; if {quote(self._text[before.start : token.end])} is one name, put it in quotes"
        elif token.kind in "[]:":
            message += "; a name with such a character goes in quotes"
        raise self._error(message + _in_quotes(token), token.start, "missing-operator")

    def _describe(self, token: Token) -> str:
        return "the end" if token.kind == "end" else quote(self._text[token.start : token.end])

    def _piece(self, operand: _Operand) -> str:
        return _shortened(self._text[operand.start : operand.end])

    def _unweighted(self, operand: _Operand) -> str:
        start = operand.why.end if operand.why and operand.why.kind == _WEIGHT else operand.start
        return _shortened(self._text[start : operand.end].strip())


def _start(mention: Mention) -> int:
    return mention.start


def _in_quotes(token: Token) -> str:
    """Return a hint for a reserved word that may be meant as a name."""
    return f'; as a name it goes in quotes: "{token.name}"' if token.kind in (*_SYMBOL_FOR, *_CALLS) else ""


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SUGGESTED_CHARACTERS else "…"
