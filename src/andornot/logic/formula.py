"""`Formula`: a query such as `(a | b) & ~c`, read once, evaluated on any representations."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import reduce
from typing import Final

import torch
from torch import Tensor

from ..choices import SEMANTICS
from ..errors import AndornotError, did_you_mean, unknown
from . import exact, godel, parser
from . import program as p
from .cost import MAX_SECONDS, Cost, Plan, TooLong, plan_of_states, plan_of_values
from .operators import Logic, get_logic
from .parser import FormulaError, Mention
from .program import Node, Program
from .representation import Representation, check_same_features, combine, common_shape, wide_dtype

# Of the lattice; a plan goes that deep.
MAX_REPEATED_NAMES: Final = 10

_OR_LEVEL, _AND_LEVEL, _NOT_LEVEL, _ATOM_LEVEL = range(1, 5)


class Formula:
    """A formula over names of pictures: `|`, `&`, `~`, `-`, words `or and not`, `at_least(k, …)`, "quoted names".

    >>> f = Formula("(a or b) and not c")
    >>> str(f), f.names
    ('(a | b) & ~c', ('a', 'b', 'c'))
    >>> a, b, c = Representation([[[0.9, 0.1]], [[0.2, 0.8]], [[0.5, 0.5]]])
    >>> f.evaluate({"a": a, "b": b, "c": c}).degrees
    tensor([0.4100])
    """

    def __init__(self, text: str) -> None:
        """Raises a FormulaError with a caret under the spot if `text` is no formula."""
        if not isinstance(text, str):
            raise TypeError(f"a formula is a text, got {type(text).__name__}")
        self._text = text
        self._program, self._mentions, self._positions = parser.parse(text)
        # Where each name stands first.
        self._names: dict[str, int] = {}
        for mention in self._mentions:
            self._names.setdefault(mention.name, mention.start)
        self._repeated = tuple(name for name, count in p.mentions(self._program).items() if count > 1)
        self._has_minus = any(node.op == p.MINUS for node in self._program)
        self._plan: Plan | None = None

    @property
    def text(self) -> str:
        """The formula as it was written."""
        return self._text

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the formula, in the order of their first mention."""
        return tuple(self._names)

    @property
    def mentions(self) -> tuple[Mention, ...]:
        """Every mention of a name, in the order of the text.

        >>> Formula("a & ~a").mentions
        (Mention(name='a', start=0, end=1), Mention(name='a', start=5, end=6))
        """
        return self._mentions

    @property
    def program(self) -> Program:
        """The operations in the order of evaluation, equal ones once, the last one last.

        >>> Formula("a & ~a").program
        (Node(op='name', args=(), value='a'), Node(op='not', args=(0,), value=0), Node(op='and', args=(0, 1), value=0))
        """
        return self._program

    def error_at(self, name: str, message: str) -> FormulaError:
        """An error that points at the first mention of a name."""
        return FormulaError(message, self._text, self._names[name])

    def evaluate(
        self, values: Mapping[str, Representation], semantics: str = "exact", logic: str | Logic = "godel"
    ) -> Representation:
        """The representation of the formula, given that of each name; leading dimensions broadcast.

        `semantics="exact"` takes every mention of a name as the same variable, so that the laws of logic hold;
        `"independent"` is the paper's: each mention is a fresh variable with the same distribution. They differ only if
        a name occurs twice. `logic`: "godel" (the paper's), "lukasiewicz", "product", or an object
        like them: a `Logic` of your own.
        """
        chosen = get_logic(logic)
        if semantics not in SEMANTICS:
            raise AndornotError(unknown("semantics", semantics, SEMANTICS))
        for name in self._names:
            if name not in values:
                raise self.unknown_name(name, values)
        operands = [values[name] for name in self._names]
        check_same_features(operands)
        if semantics == "independent" or not self._repeated:
            return combine(lambda *probs: self._evaluate_independent(self._named(probs), chosen), *operands)
        if chosen is not godel:
            message = f'semantics="exact" is Gödel\'s alone, and "{self._repeated[0]}" occurs more than once'
            raise self._refused(f'{message}; use semantics="independent"')
        shape = common_shape(operands)
        dtype = wide_dtype(reduce(torch.promote_types, (operand.dtype for operand in operands)))
        plan = self._planned(shape[-2:], dtype)
        features_at_once = self.cost(shape, dtype).features_at_once

        def kernel(*probs: Tensor) -> Tensor:
            named = self._named(probs)
            # A name that the laws remove from the formula still has a say in the shape of the result.
            kept = (*shape[:-2], probs[0].shape[-2], shape[-1])
            if self._has_minus:
                return self._evaluate_by_values(named, chosen).expand(kept)
            return exact.evaluate(plan.steps, named).expand(kept)

        def in_parts(*probs: Tensor) -> Tensor:
            parts = zip(*(torch.split(one, features_at_once, -2) for one in probs), strict=True)
            return torch.cat([kernel(*part) for part in parts], -2)

        return combine(in_parts if features_at_once < shape[-2] else kernel, *operands)

    def cost(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Cost:
        """What `evaluate` takes for operands that broadcast to `(..., N, M)`: seconds on one core, and memory.

        That of `semantics="exact"`. Where one picture's representation `(N, M)` takes more than a few seconds, this is
        a FormulaError, as it is for `evaluate`; how many are computed at once is up to the caller.

        >>> Formula("a & (b | a)").cost((1280, 8)).seconds < 0.1
        True
        """
        plan = self._planned(shape[-2:], dtype)
        of_one = plan.cost(shape[-2:], dtype.itemsize)
        if of_one.seconds > MAX_SECONDS:
            raise self._too_long(of_one.seconds)
        return plan.cost(shape, dtype.itemsize)

    def unknown_name(self, name: str, known: Iterable[str]) -> FormulaError:
        """The error for a name that stands for nothing, with what may have been meant."""
        start = self._names[name]
        before, after = self._text[:start].rstrip(), self._text[start + len(name) :].lstrip()
        if name.startswith("/") and self._text[:start].endswith("~"):
            hint = f'"~" is NOT here; if "~{name}" is one name, put it in quotes'
        elif "-" in name and parser.is_bare(name):
            hint = self._hint_at_minus(name, list(map(str, known)))
        elif nearest := get_close_matches(name, map(str, known), n=3):
            hint = did_you_mean(nearest)
        elif before.endswith("-") or after.startswith("-"):
            hint = 'a "-" with a space beside it is the difference; a name with both goes in quotes'
        else:
            hint = ""
        return FormulaError(f'unknown name "{name}"' + (f"; {hint}" if hint else ""), self._text, start)

    @staticmethod
    def _hint_at_minus(name: str, known: list[str]) -> str:
        """What a name with "-" in it may have meant: a picture named like it, or a difference."""
        minus = 'a "-" without spaces is part of a name; the difference is "{} - {}"'
        cuts = [(name[:at], name[at + 1 :]) for at, character in enumerate(name) if character == "-"]
        for left, right in cuts:
            if left in known and right in known:
                return minus.format(left, right)
        nearest = get_close_matches(name, known, n=3)
        return (f"{did_you_mean(nearest)} Besides, " if nearest else "") + minus.format(*cuts[0])

    def _planned(self, shape: Sequence[int], dtype: torch.dtype) -> Plan:
        """The steps of an exact evaluation. Those of names with states are found once, whatever the shape."""
        if self._has_minus:
            return plan_of_values(self._program, len(self._repeated), shape[-1])
        if self._plan is None:
            if len(self._repeated) > MAX_REPEATED_NAMES:
                message = f"{len(self._repeated)} names occur more than once, more than the {MAX_REPEATED_NAMES} that"
                raise self._refused(f'{message} semantics="exact" can take; use semantics="independent"')
            try:
                self._plan = plan_of_states(self._program, shape, dtype.itemsize)
            except TooLong as too_long:
                raise self._too_long(too_long.seconds) from None
        return self._plan

    def _too_long(self, seconds: float) -> FormulaError:
        count = len(self._repeated)
        why = f"{count} names occur more than once" if count > 1 else f'"{self._repeated[0]}" occurs more than once'
        instead = 'write "a & ~b" for "a - b", ' if self._has_minus else ""
        return self._refused(
            f'semantics="exact" would take {_duration(seconds)}, more than the {MAX_SECONDS:.0f} that it may: {why}; '
            f'{instead}repeat fewer names, or use semantics="independent"'
        )

    def _refused(self, message: str) -> FormulaError:
        """An error that points at the last of the names that occur more than once."""
        return self.error_at(self._repeated[-1], message)

    def _named(self, probs: Sequence[Tensor]) -> dict[str, Tensor]:
        return dict(zip(self._names, probs, strict=True))

    def _evaluate_by_values(self, probs: Mapping[str, Tensor], logic: Logic) -> Tensor:
        """`-` is no operation of the lattice: names that occur more than once take each of their values in turn."""
        like = probs[self._repeated[0]]
        values = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
        total = torch.zeros((), dtype=like.dtype, device=like.device)
        for chosen in itertools.product(range(len(values)), repeat=len(self._repeated)):
            fixed = dict(zip(self._repeated, (values[value] for value in chosen), strict=True))
            weights = [probs[name][..., value, None] for name, value in zip(self._repeated, chosen, strict=True)]
            total = total + reduce(torch.mul, weights) * self._evaluate_independent({**probs, **fixed}, logic)
        return total

    def _evaluate_independent(self, probs: Mapping[str, Tensor], logic: Logic) -> Tensor:
        def apply(position: int, node: Node, operands: list[Tensor]) -> Tensor:
            if node.op == p.NAME:
                return probs[str(node.value)]
            if node.op == p.NOT:
                return godel.negation(operands[0])
            if node.op == p.OR:
                return logic.disjunction(*operands)
            if node.op == p.AND:
                return logic.conjunction(*operands)
            if node.op == p.MINUS:
                return logic.minus(*operands)
            try:
                return logic.at_least(int(node.value), operands)
            except ValueError as error:
                raise FormulaError(str(error), self._text, self._positions[position]) from None

        return p.run(self._program, apply)

    def __str__(self) -> str:
        """The shortest usual way to write it; it parses to an equal formula."""
        text = _written(self._program, roomy=True)
        # A formula typed without spaces may outgrow the limit when they are added.
        return text if len(text) <= parser.MAX_CHARACTERS else _written(self._program, roomy=False)

    def __repr__(self) -> str:
        return f"Formula({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same tree, however written."""
        return self._program == other._program if isinstance(other, Formula) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._program)


def _duration(seconds: float) -> str:
    if math.isinf(seconds):
        return "very long"
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds > 2 * size:
            return f"about {seconds / size:,.0f} {unit}"
    return f"about {seconds:.{0 if seconds > 9 else 1}f} seconds"


def _written(program: Program, *, roomy: bool) -> str:
    """The text of a program with no needless bracket, with or without spaces around operators."""
    written: list[tuple[str, int]] = []
    for node in program:
        written.append(_write_node(node, [written[a] for a in node.args], " " if roomy else ""))
    return written[-1][0]


def _write_node(node: Node, operands: list[tuple[str, int]], space: str) -> tuple[str, int]:
    if node.op == p.NAME:
        return write_name(str(node.value)), _ATOM_LEVEL
    if node.op == p.NOT:
        return "~" + _bracketed(operands[0], _NOT_LEVEL), _NOT_LEVEL
    if node.op == p.AT_LEAST:
        return (
            f"at_least({f',{space}'.join([str(node.value), *(text for text, _ in operands)])})",
            _ATOM_LEVEL,
        )
    level = _OR_LEVEL if node.op == p.OR else _AND_LEVEL
    left, right = _bracketed(operands[0], level), _bracketed(operands[1], level + 1)
    if node.op == p.MINUS:
        glued = not space and (left[-1] in ')"' or right[0] in '("~')
        sign = "-" if glued else f" -{space}"
    else:
        sign = space + ("|" if node.op == p.OR else "&") + space
    return left + sign + right, level


def _bracketed(operand: tuple[str, int], level: int) -> str:
    text, own_level = operand
    return text if own_level >= level else f"({text})"


def write_name(name: str) -> str:
    """A name as it stands in a formula: in quotes if it needs them."""
    if parser.is_bare(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
