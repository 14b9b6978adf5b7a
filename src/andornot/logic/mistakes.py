"""Errors for mistakes in a formula, with messages that say what to write instead."""

from typing import Final, NamedTuple, NoReturn

from . import program as p
from .atoms import write_number
from .tokens import FormulaError, FormulaErrorCode, Token, quote

LEAST_WEIGHT: Final = 0.001
MOST_WEIGHT: Final = 1000
WEIGHT_SIGN: Final = "*"
CALLS: Final = (p.AT_LEAST, p.LIKE)
_WORD_FOR: Final = {"|": "or", "&": "and", "-": "and not"}
_SYMBOL_FOR: Final = {"or": "|", "and": "&", "not": "~"}
_SUGGESTED_CHARACTERS: Final = 60


class Operand(NamedTuple):
    """A parsed part of the text from `start` to `end`: a node of a term or of a condition.

    `why` is the keyword or weight that makes it a condition (also a weight of 1, which adds no node).
    """

    node: int
    start: int
    end: int
    why: Token | None = None
    is_term: bool = True


class Mistakes:
    """Create the errors for one text."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text, self._tokens = text, tokens

    def error(self, message: str, position: int, code: FormulaErrorCode) -> FormulaError:
        """Return an error at a position."""
        return FormulaError(message, self._text, position, code=code)

    def refuse_condition_beside(self, left: Operand, token: Token, right: Operand) -> NoReturn:
        """Raise the error for `(a and b) | c` and the like."""
        reasons = [operand.why for operand in (left, right) if operand.why]
        why = next((reason for reason in reasons if reason.kind != WEIGHT_SIGN), reasons[0])
        word = _WORD_FOR[token.kind]
        written = f"{self._piece(left)} {word} {self._piece(right)}"
        if why.kind == WEIGHT_SIGN:
            factor = self._text[why.start : why.end - 1].strip()
            whole = f"{factor}*({self._unweighted(left)} {token.kind} {self._unweighted(right)})"
            message = f"a weight counts a whole term: write {whole}, or {written}"
        else:
            message = f'write {written}: "{token.kind}" joins images, "{word}" joins conditions'
        raise self.error(message, token.start, "condition-in-term")

    def refuse_condition_negated(self, token: Token, right: Operand) -> NoReturn:
        """Raise the error for `~(a and b)`."""
        message = f'write not {self._piece(right)}: "~" is for images, "not" for conditions'
        raise self.error(message, token.start, "condition-in-term")

    def refuse_condition_weighted(self, token: Token, value: float, right: Operand) -> NoReturn:
        """Raise the error for `2*(a and b)`, `2*not a` and `2*3*a`."""
        assert right.why is not None
        factor = write_number(value)
        if right.why.kind == WEIGHT_SIGN:
            message = "a term has one weight"
        elif right.why.kind == "not":
            message = f'the weight stands behind "not": write not {factor}*a'
        else:
            message = f"a weight counts a term, not a condition: write {factor}*a {right.why.kind} {factor}*b"
        raise self.error(message, token.start, "bad-weight")

    def refuse_condition_within(self, call: str, why: Token) -> NoReturn:
        """Raise the error for a condition in `like(…)` or `at_least(…)`."""
        if why.kind == WEIGHT_SIGN:
            message = f"a weight counts a whole term: write it before {call}(…)"
        else:
            message = f'{call}(…) is of images, not of conditions: write "{_SYMBOL_FOR[why.kind]}" for "{why.kind}"'
        raise self.error(message, why.start, "condition-in-term")

    def refuse_operand(self, token: Token) -> NoReturn:
        """Raise the error for a token where a name is expected."""
        before = self._tokens[self._tokens.index(token) - 1] if token is not self._tokens[0] else None
        code: FormulaErrorCode = "missing-operand"
        if len(self._tokens) == 1:
            code = "empty-formula"
            message = "the formula is empty: write an image or a word, such as beach.jpg or dog"
        elif before and before.kind == token.kind and token.kind in "&|" and before.end == token.start:
            code = "duplicate-operator"
            message = f'write "{token.kind}" once, or "{_WORD_FOR[token.kind]}"'
        elif token.kind in CALLS:
            message = f'expected "(" behind "{token.kind}"' + in_quotes(token)
        else:
            message = f'expected a name or "(", found {self.describe(token)}' + in_quotes(token)
            if token.kind == "-":
                message += ', which stands between two operands (NOT is "~")'
        raise self.error(message, token.start, code)

    def refuse_operator(self, token: Token) -> NoReturn:
        """Raise the error for a token where an operator is expected."""
        before = self._tokens[self._tokens.index(token) - 1]
        if token.kind == WEIGHT_SIGN:
            raise self.error("a weight stands before its term, as in 2*a", token.start, "bad-weight")
        signs = '"and" or "or"' if token.kind == "not" else '"and", "or", "&", "|" or "-"'
        message = f"expected {signs} before {self.describe(token)}"
        if before.kind == token.kind == "name":
            message += f"; if {quote(self._text[before.start : token.end])} is one name, put it in quotes"
        elif token.kind in "[]:":
            message += "; a name with such a character goes in quotes"
        raise self.error(message + in_quotes(token), token.start, "missing-operator")

    def describe(self, token: Token) -> str:
        """Return a token as messages quote it."""
        return "the end" if token.kind == "end" else quote(self._text[token.start : token.end])

    def _piece(self, operand: Operand) -> str:
        return _shortened(self._text[operand.start : operand.end])

    def _unweighted(self, operand: Operand) -> str:
        start = operand.why.end if operand.why and operand.why.kind == WEIGHT_SIGN else operand.start
        return _shortened(self._text[start : operand.end].strip())

    def refuse_weight(self, text: str, token: Token) -> NoReturn:
        """Raise the error for a weight that is not a number or out of range."""
        bounds = f"from {write_number(LEAST_WEIGHT)} to {MOST_WEIGHT:,}"
        message = f"a weight is a number {bounds}, such as 2 or 0.5 in 2*a, not {quote(text)}"
        raise self.error(message, token.start, "bad-weight")


def in_quotes(token: Token) -> str:
    """Return a hint for a reserved word that may be meant as a name."""
    return f'; as a name it goes in quotes: "{token.name}"' if token.kind in (*_SYMBOL_FOR, *CALLS) else ""


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SUGGESTED_CHARACTERS else "…"
