"""Parse the text of a formula into programs; errors point at the mistake.

    condition = both { "or" both }
    both      = one { "and" one }
    one       = "not" one | weight "*" factor | term | "(" condition ")"
    term      = share { "|" share }
    share     = factor { ("&" | "-") factor }
    factor    = ("~" | "!") factor | "(" term ")" | atom
              | "at_least" "(" k { "," term } ")" | "like" "(" term { "," term } ")"
    atom      = [ ("word" | "image") ":" ] name [ "[" left "," top "," right "," bottom "]" ]

The parser uses operator stacks, because recursive descent would raise a RecursionError on deep nesting. It first
accepts conditions inside of terms, so that the error can say what to write instead.
"""

from bisect import bisect_left
from functools import lru_cache
from typing import Final, NamedTuple

from . import program as p
from .atoms import KINDS, Atom, Crop, read_number, write_number
from .mistakes import CALLS, LEAST_WEIGHT, MOST_WEIGHT, WEIGHT_SIGN, Mistakes, Operand, in_quotes
from .program import Builder, Program, Value
from .tokens import FormulaError, Token, quote, tokens

MAX_CHARACTERS: Final = 10_000
MAX_NESTING: Final = 200

# Operator precedence; higher binds tighter.
_LEVELS: Final = {"or": 1, "and": 2, "not": 3, "|": 4, "&": 5, "-": 5, "~": 6, WEIGHT_SIGN: 6}
_SYMBOLS: Final = {"|": p.OR, "&": p.AND, "-": p.MINUS}
_JOINING_WORDS: Final = {"or": p.OR, "and": p.AND}
_MOST_PIXELS: Final = 1_000_000
_MOST_DIGITS: Final = len(str(MAX_CHARACTERS))
_FOUR_NUMBERS: Final = "a crop has four numbers, name[left, top, right, bottom]; a name with brackets goes in quotes"


class Mention(NamedTuple):
    """A mention of an atom in a formula: `text[start:end]`."""

    name: str
    start: int
    end: int
    atom: Atom


class ParsedTerm(NamedTuple):
    """The program of a term, the mentions in its first occurrence, and the first position of each operation."""

    program: Program
    mentions: tuple[Mention, ...]
    positions: dict[int, int]


class Parsed(NamedTuple):
    """The program of a condition, its distinct terms, all mentions, and the first position of each operation."""

    condition: Program
    terms: tuple[ParsedTerm, ...]
    mentions: tuple[Mention, ...]
    positions: dict[int, int]


@lru_cache(maxsize=256)
def parse(text: str) -> Parsed:
    """Parse a formula, or raise a FormulaError. Cached, because a search parses its formula several times."""
    if len(text) > MAX_CHARACTERS:
        message = f"the formula has {len(text):,} characters, more than {MAX_CHARACTERS:,}"
        raise FormulaError(message, text, MAX_CHARACTERS, code="too-long")
    return _FormulaParser(text).parse()


class _Pending(NamedTuple):
    """An operator or bracket on the stack; `operands` is the number of operands before it."""

    token: Token
    operands: int
    # The k of an at_least, or the factor of a weight.
    value: float = 0

    @property
    def is_bracket(self) -> bool:
        return self.token.kind in ("(", *CALLS)


class _Level:
    """The nodes of terms or of conditions, and the first position of each."""

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


class _FormulaParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._mistakes = Mistakes(text, self._tokens)
        self._next = 0
        self._operands: list[Operand] = []
        self._pending: list[_Pending] = []
        self._nesting = 0
        self._mentions: list[Mention] = []
        self._of_terms = _Level()
        self._of_conditions = _Level()
        # Distinct terms by program, with their node in the condition.
        self._terms: dict[Program, tuple[int, ParsedTerm]] = {}

    def parse(self) -> Parsed:
        while True:
            self._read_operand()
            if self._read_operator().kind == "end":
                return self._parsed(self._as_condition(self._operands[0]))

    def _parsed(self, root: int) -> Parsed:
        """Return the result, with terms in the order of the text instead of that of operations."""
        nodes, positions = self._of_conditions.part(root)
        terms = sorted(self._terms.values(), key=lambda numbered: _start(numbered[1].mentions[0]))
        moved = {old: new for new, (old, _) in enumerate(terms)}
        condition = tuple(node._replace(value=moved[int(node.value)]) if node.op == p.TERM else node for node in nodes)
        return Parsed(condition, tuple(term for _, term in terms), tuple(self._mentions), positions)

    def _take(self) -> Token:
        token = self._tokens[self._next]
        # Stay at the end token.
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    @property
    def _following(self) -> str:
        return self._tokens[self._next].kind

    # --- operands ---------------------------------------------------------------------------------------------------

    def _read_operand(self) -> None:
        """Read one atom, with the NOTs, weights and opening brackets before it."""
        while True:
            token = self._take()
            if self._following == WEIGHT_SIGN and token.kind not in ("(", ",", "~", "not"):
                self._push(self._take()._replace(start=token.start), self._read_weight(token))
            elif token.kind == "-" and self._tokens[min(self._next + 1, len(self._tokens) - 1)].kind == WEIGHT_SIGN:
                self._mistakes.refuse_weight(f"-{self._tokens[self._next].name}", token)
            elif token.kind == "name":
                self._read_atom(token)
                return
            elif token.kind in ("~", "not", "("):
                self._push(token)
            elif token.kind in CALLS and self._following == "(":
                self._take()
                self._push(token, self._read_count() if token.kind == p.AT_LEAST else 0)
                if token.kind == p.LIKE and self._following == ")":
                    message = "like needs an image or more: like(a, b, c)"
                    raise self._mistakes.error(message, self._tokens[self._next].start, "missing-operand")
            else:
                self._mistakes.refuse_operand(token)

    def _read_atom(self, token: Token) -> None:
        kind, name, crop = "", token, None
        if self._following == ":" and not token.is_quoted:
            kind, name = self._read_kind(token)
        end = name.end
        if self._following == "[":
            bracket = self._take()
            if kind == "word":
                raise self._mistakes.error("a crop is of an image, and this is a word", bracket.start, "crop-of-word")
            crop, end = self._read_crop(bracket)
        atom = Atom(name.name, kind, crop)
        self._mentions.append(Mention(atom.name, token.start, end, atom))
        index = self._of_terms.add(token.start, p.NAME, [], str(atom))
        self._operands.append(Operand(index, token.start, end))

    def _read_kind(self, token: Token) -> tuple[str, Token]:
        colon, kind = self._take(), token.name.lower()
        if kind not in KINDS:
            message = f'before ":" stands "word" or "image", not {quote(token.name)}; a name with ":" goes in quotes'
            raise self._mistakes.error(message, token.start, "bad-kind")
        name = self._take()
        if name.kind != "name":
            message = f'expected a name behind "{kind}:", found {self._mistakes.describe(name)}'
            position = name.start if name.kind != "end" else colon.end
            raise self._mistakes.error(message + in_quotes(name), position, "missing-operand")
        return kind, name

    def _read_crop(self, bracket: Token) -> tuple[Crop, int]:
        numbers: list[tuple[float, int]] = []
        while True:
            token = self._take()
            if token.kind == "-" and self._following == "name":
                message = f"a crop begins at 0: {quote(f'-{self._tokens[self._next].name}')} is outside of the image"
                raise self._mistakes.error(message, token.start, "bad-crop")
            number = None if token.is_quoted or token.kind != "name" else read_number(token.name)
            if number is None:
                raise self._mistakes.error(_FOUR_NUMBERS, token.start, "bad-crop")
            numbers.append((number, token.start))
            token = self._take()
            if token.kind != "," and not (token.kind == "]" and len(numbers) == 4):
                raise self._mistakes.error(
                    _FOUR_NUMBERS, token.start if token.kind != "end" else bracket.start, "bad-crop"
                )
            if token.kind == "]":
                return self._checked_crop(numbers, bracket.start), token.end

    def _checked_crop(self, numbers: list[tuple[float, int]], start: int) -> Crop:
        if max(number for number, _ in numbers) > 1:
            largest, _ = max(numbers)
            for number, position in numbers:
                shown = write_number(min(number, 10.0 * _MOST_PIXELS))
                if number > _MOST_PIXELS:
                    raise self._mistakes.error(f"no image is wider than {_MOST_PIXELS:,} pixels", position, "bad-crop")
                if not number.is_integer():
                    wrong = "is outside of the image" if number > 1 else f"does not go with {write_number(largest)}"
                    message = f"{shown} {wrong}: a crop is all in fractions from 0 to 1, or all in whole pixels"
                    raise self._mistakes.error(message, position, "bad-crop")
            crop = Crop(*(int(number) for number, _ in numbers))
        else:
            crop = Crop(*(number for number, _ in numbers))
        for low, high in (("left", "right"), ("top", "bottom")):
            if getattr(crop, low) >= getattr(crop, high):
                edges = f"{low} {write_number(getattr(crop, low))}, {high} {write_number(getattr(crop, high))}"
                message = f"the crop is empty, with {edges}; it is [left, top, right, bottom]"
                raise self._mistakes.error(message, start, "bad-crop")
        return crop

    def _read_weight(self, token: Token) -> float:
        factor = None if token.is_quoted else read_number(token.name)
        if factor is None or not LEAST_WEIGHT <= factor <= MOST_WEIGHT:
            self._mistakes.refuse_weight(self._text[token.start : token.end], token)
        return factor

    def _read_count(self) -> int:
        token = self._take()
        digits = token.name.lstrip("0")
        if not (digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS):
            message = "at_least takes a whole number from 1 first: at_least(2, a, b, c)"
            raise self._mistakes.error(message, token.start, "bad-at-least-count")
        comma = self._take()
        if comma.kind != ",":
            message = f'expected ", " and the operands: at_least({token.name}, a, b, c)'
            raise self._mistakes.error(message, comma.start, "bad-at-least-count")
        return int(digits)

    # --- operators --------------------------------------------------------------------------------------------------

    def _read_operator(self) -> Token:
        """Read the closing brackets after an operand, and the operator, comma or end that follows."""
        while True:
            token = self._take()
            if token.kind in _SYMBOLS or token.kind in _JOINING_WORDS:
                self._apply_pending(_LEVELS[token.kind])
                self._pending.append(_Pending(token, len(self._operands)))
                return token
            if token.kind not in (")", ",", "end"):
                self._mistakes.refuse_operator(token)
            self._apply_pending(0)
            bracket = self._pending[-1] if self._pending else None
            if token.kind == "end":
                if bracket:
                    opening = self._text.index("(", bracket.token.start)
                    raise self._mistakes.error('this "(" is never closed', opening, "unclosed-bracket")
                return token
            if token.kind == ",":
                if not bracket or bracket.token.kind not in CALLS:
                    message = '"," stands only in at_least(…) and in like(…): write "and" or "or"'
                    raise self._mistakes.error(message, token.start, "unexpected-comma")
                return token
            if not bracket:
                raise self._mistakes.error('this ")" closes nothing', token.start, "unmatched-bracket")
            self._close(bracket, token)

    def _push(self, token: Token, value: float = 0) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._mistakes.error(f"nested deeper than {MAX_NESTING} levels", token.start, "too-deep")
        self._pending.append(_Pending(token, len(self._operands), value))

    def _apply_pending(self, level: int) -> None:
        """Apply the operators on the stack, down to a bracket, that bind at least as tightly as `level`."""
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

    def _joined(self, left: Operand, token: Token, right: Operand) -> Operand:
        if token.kind in _JOINING_WORDS:
            args = [self._as_condition(left), self._as_condition(right)]
            index = self._of_conditions.add(token.start, _JOINING_WORDS[token.kind], args)
            return Operand(index, left.start, right.end, token, is_term=False)
        if left.why or right.why:
            self._mistakes.refuse_condition_beside(left, token, right)
        index = self._of_terms.add(token.start, _SYMBOLS[token.kind], [left.node, right.node])
        return Operand(index, left.start, right.end)

    def _prefixed(self, token: Token, value: float, right: Operand) -> Operand:
        if token.kind == "~":
            if right.why:
                self._mistakes.refuse_condition_negated(token, right)
            return Operand(self._of_terms.add(token.start, p.NOT, [right.node]), token.start, right.end)
        if token.kind == "not":
            index = self._of_conditions.add(token.start, p.NOT, [self._as_condition(right)])
            return Operand(index, token.start, right.end, token, is_term=False)
        if right.why:
            self._mistakes.refuse_condition_weighted(token, value, right)
        if value == 1:
            return right._replace(start=token.start, why=token)
        index = self._of_conditions.add(token.start, p.WEIGHT, [self._as_condition(right)], value)
        return Operand(index, token.start, right.end, token, is_term=False)

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
                self._mistakes.refuse_condition_within(token.kind, arg.why)
        if bracket.value > len(args):
            message = f"at_least({bracket.value}, …) needs {bracket.value} operands or more, and has {len(args)}"
            raise self._mistakes.error(message, token.start, "bad-at-least-count")
        index = self._of_terms.add(token.start, token.kind, [arg.node for arg in args], bracket.value)
        self._operands.append(Operand(index, token.start, closing.end))

    def _as_condition(self, operand: Operand) -> int:
        """Return the node of a condition; equal terms share one."""
        if not operand.is_term:
            return operand.node
        program, positions = self._of_terms.part(operand.node)
        if program not in self._terms:
            first, last = (bisect_left(self._mentions, at, key=_start) for at in (operand.start, operand.end))
            term = ParsedTerm(program, tuple(self._mentions[first:last]), positions)
            self._terms[program] = len(self._terms), term
        return self._of_conditions.add(operand.start, p.TERM, [], self._terms[program][0])


def _start(mention: Mention) -> int:
    return mention.start
