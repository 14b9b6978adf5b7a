"""`Formula`: a query such as `(a | b) & ~c` or `a and not b`, read once, evaluated on any representations or truths."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..choices import SEMANTICS
from ..errors import AndornotError, did_you_mean, spelled_like, unknown
from . import parser, truth, writing
from . import program as p
from .atoms import Atom, is_bare
from .atoms import write_name as write_name
from .cost import Cost
from .evaluation import TermEvaluation
from .operators import Logic, get_logic
from .parser import Mention, Parsed, ParsedTerm
from .program import Node, Program
from .representation import Representation, check_same_features
from .tokens import FormulaError, FormulaErrorCode

# Of a name that nobody knows so much is told.
_LONGEST: Final = 100

Degrees = TypeVar("Degrees", Tensor, np.ndarray)


class Formula:
    """A term, which describes an image, or a condition, which says what images must be.

    A term joins atoms with `|`, `&`, `~`, `-`, `at_least(k, …)` and `like(…)`. A condition joins terms with `or`,
    `and`, `not`, and may weigh them: `2*a`. An atom is a name, also in "quotes", a crop of one, such as
    `a[left, top, right, bottom]`, or a name of a kind, `word:a` or `image:a`.

    >>> f = Formula("(a|b) & !c")
    >>> str(f), f.names, f.is_condition
    ('(a | b) & ~c', ('a', 'b', 'c'), False)
    >>> a, b, c = Representation([[[0.9, 0.1]], [[0.2, 0.8]], [[0.5, 0.5]]])
    >>> f.evaluate({"a": a, "b": b, "c": c}).degrees
    tensor([0.4100])

    >>> f = Formula("a and not (b | c)")
    >>> f.is_condition, f.terms
    (True, (Formula('a'), Formula('b | c')))
    >>> f.truth({"a": torch.tensor([0.5, 0.5]), "b | c": torch.tensor([0.0, 0.5])})
    tensor([0.5000, 0.2500])
    """

    def __init__(self, text: str) -> None:
        """Raise a FormulaError with a caret under the mistake if `text` is not a formula."""
        if not isinstance(text, str):
            raise TypeError(f"a formula is a text, got {type(text).__name__}")
        self._text: str | None = text
        self._source = text
        self._parsed = parser.parse(text)

    @classmethod
    def _part(cls, source: str, term: ParsedTerm) -> "Formula":
        """Return a term as part of a text."""
        part = cls.__new__(cls)
        part._text, part._source = None, source
        part._parsed = Parsed((Node(p.TERM),), (term,), term.mentions, {0: term.mentions[0].start})
        return part

    # --- what it says -----------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The formula as it was written; that of a term of a condition is its usual way to be written."""
        return str(self) if self._text is None else self._text

    @property
    def source(self) -> str:
        """The text in which its mentions have their places: that of the whole condition for a term of one."""
        return self._source

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the formula, in the order of their first mention."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions))

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """What the formula is made of, in the order of first mention: names, with their kind and their crop.

        >>> Formula("word:dog and a.jpg[0, 0, 200, 100]").atoms[1]
        Atom(name='a.jpg', kind='', crop=Crop(left=0, top=0, right=200, bottom=100))
        """
        return tuple(dict.fromkeys(mention.atom for mention in self.mentions))

    @property
    def mentions(self) -> tuple[Mention, ...]:
        """Every mention of an atom, in the order of the text; for a term of a condition their places are in that.

        >>> f = Formula("a.jpg and not word:dog")
        >>> [f.text[mention.start : mention.end] for mention in f.mentions]
        ['a.jpg', 'word:dog']
        """
        return self._parsed.mentions

    @property
    def is_condition(self) -> bool:
        """Whether `and`, `or`, `not` or a weight is in it. A term alone is the simplest condition, but no real one."""
        return len(self._parsed.condition) > 1

    @cached_property
    def terms(self) -> tuple["Formula", ...]:
        """The terms of a condition, each once, in the order of first mention; of a term itself."""
        if not self.is_condition:
            return (self,)
        return tuple(self._part(self._source, term) for term in self._parsed.terms)

    @property
    def positive_terms(self) -> tuple["Formula", ...]:
        """The terms that an image should show: those that occur without `not`, all brackets dissolved."""
        return tuple(self.terms[number] for number in sorted(truth.signs_of(self._parsed.condition)[0]))

    @property
    def negative_terms(self) -> tuple["Formula", ...]:
        """The terms that an image should not show. One that is asked for both ways is among both.

        >>> f = Formula("a and not (b or not c) and not a")
        >>> f.positive_terms, f.negative_terms
        ((Formula('a'), Formula('c')), (Formula('a'), Formula('b')))
        """
        return tuple(self.terms[number] for number in sorted(truth.signs_of(self._parsed.condition)[1]))

    @property
    def condition(self) -> Program:
        """The operations of a condition, equal ones once, the last one last; the value of a TERM is its number.

        >>> [(node.op, node.args, node.value) for node in Formula("not 2*a").condition]
        [('term', (), 0), ('weight', (0,), 2.0), ('not', (1,), 0)]
        """
        return self._parsed.condition

    @property
    def program(self) -> Program:
        """The operations of a term in the order of evaluation, equal ones once, the last one last.

        >>> Formula("a & ~a").program
        (Node(op='name', args=(), value='a'), Node(op='not', args=(0,), value=0), Node(op='and', args=(0, 1), value=0))
        """
        return self._term.program

    @property
    def examples(self) -> tuple["Formula", ...]:
        """The operands of a term that is `like(…)`; none of any other.

        >>> Formula("like(a, b & c)").examples
        (Formula('a'), Formula('b & c'))
        """
        program = self.program
        return tuple(map(self._within, program[-1].args)) if program[-1].op == p.LIKE else ()

    @property
    def likes(self) -> tuple["Formula", ...]:
        """Every `like(…)` in a term, in the order of evaluation.

        >>> Formula("like(a, b) & ~like(c, d)").likes
        (Formula('like(a, b)'), Formula('like(c, d)'))
        """
        return tuple(self._within(index) for index, node in enumerate(self.program) if node.op == p.LIKE)

    # --- errors -----------------------------------------------------------------------------------------------------

    def error_at(self, what: str | Atom, message: str, code: FormulaErrorCode = "invalid-name") -> FormulaError:
        """Return an error that points at the first mention of a name or an atom."""
        return FormulaError(message, self._source, self._first(what).start, code=code)

    def unknown_name(self, name: str, known: Iterable[str]) -> FormulaError:
        """Return the error for an unknown name, with suggestions."""
        _, start, end, _ = self._first(name)
        before, after = self._source[:start].rstrip(), self._source[end:].lstrip()
        names = list(map(str, known))
        nearest = spelled_like(name, names, 3)
        if name.startswith("/") and self._source[:start].endswith("~"):
            hint = f'"~" is NOT here; if "~{name}" is one name, put it in quotes'
        elif "-" in name and is_bare(name):
            hint = _hint_at_minus(name, names)
        elif nearest:
            hint = did_you_mean(nearest)
        elif before.endswith("-") or after.startswith("-"):
            hint = 'a "-" with a space beside it is the difference; a name with both goes in quotes'
        else:
            hint = ""
        shown = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
        message = f'unknown name "{shown}"' + (f"; {hint}" if hint else "")
        return FormulaError(message, self._source, start, nearest, code="unknown-name")

    def _first(self, what: str | Atom) -> Mention:
        return next(mention for mention in self.mentions if what in (mention.name, mention.atom))

    def _no_term(self) -> FormulaError:
        """Return the error for a condition in the place of a term, at the first word or weight that makes it one."""
        made = [(at, self.condition[index]) for index, at in self._parsed.positions.items()]
        position, node = min((at, node) for at, node in made if node.op != p.TERM)
        if node.op == p.WEIGHT:
            message = "a weight makes this a condition, which has a truth in each image and no representation"
        else:
            sign = {p.AND: "&", p.OR: "|", p.NOT: "~"}[node.op]
            message = f'"{node.op}" makes this a condition, which has a truth in each image and no representation; '
            message += f'"{sign}" joins images' if node.op != p.NOT else f'"{sign}" is for images'
        return FormulaError(message, self._source, position, code="condition-in-term")

    # --- truth ------------------------------------------------------------------------------------------------------

    def truth(self, values: Mapping[str, Degrees] | Mapping["Formula", Degrees], logic: str = "product") -> Degrees:
        """Compute the truth of the condition in each image from that of each term: degrees from 0 to 1, broadcast.

        The key of a term is its text, with any spaces, or the term itself. `logic`: "product" (AND is a·b, OR is
        a + b - a·b), "godel" (the smaller, the larger) or "lukasiewicz" (max(0, a + b - 1), min(1, a + b)). NOT is
        1 - t in all three. NumPy arrays give an array. The result shares no memory with what was given.
        """
        given = self._by_term(values)
        terms = truth.checked(dict(zip(map(str, self.terms), given, strict=True)))
        result = self.truth_of_terms(terms, logic)
        if any(result is term for term in terms):  # a term alone is as true as it is
            result = result.clone()
        return result if isinstance(given[0], Tensor) else result.numpy()

    def truth_of_terms(self, truths: Sequence[Tensor], logic: str = "product") -> Tensor:
        """Compute `truth` without checks, from tensors in the order of `terms`: for blocks of images.

        It never falls if the truth of a term rises that is no negative term, nor rises if that of one rises that is no
        positive term. So it is at most what it is for the highest truths of positive and the lowest of negative terms.

        >>> Formula("a or b").truth_of_terms([torch.tensor(0.5), torch.tensor(0.5)])
        tensor(0.7500)
        """
        return truth.truth(self._steps, truths, logic)

    @cached_property
    def _steps(self) -> Program:
        return truth.steps_of(self.condition)

    def _by_term(self, values: Mapping[str, Degrees] | Mapping["Formula", Degrees]) -> list[Degrees]:
        """Return the values in the order of the terms."""
        numbers = {term: number for number, term in enumerate(self.terms)}
        found: dict[int, Degrees] = {}
        for key, value in values.items():
            number = next((numbers[term] for term in _readings(key) if term in numbers), None)
            if number is None:
                raise AndornotError(unknown("term", key, map(str, self.terms)))
            if number in found:
                raise AndornotError(f'the truth of "{self.terms[number]}" is given twice')
            found[number] = value
        for term, number in numbers.items():
            if number not in found:
                message = f'the truth of "{term}" is not given'
                raise FormulaError(message, self._source, term.mentions[0].start, code="missing-value")
        return [found[number] for number in range(len(numbers))]

    # --- the representation of a term -------------------------------------------------------------------------------

    def evaluate(
        self,
        values: Mapping[str, Representation] | Mapping[Atom, Representation],
        semantics: str = "exact",
        logic: str | Logic = "godel",
    ) -> Representation:
        """Compute the representation of a term from that of each atom; leading dimensions broadcast.

        The key of an atom is its name, or its text where it has a kind or a crop, or the atom itself.
        `semantics="exact"` takes every mention of a name as the same variable, so that the laws of logic hold;
        `"independent"` is the paper's: each mention is a fresh variable with the same distribution. They differ only if
        a name occurs twice. `like(…)` is the mean of its examples' distributions, and a variable of its own.
        `logic`: "godel" (the paper's), "lukasiewicz", "product", or an object like them: a `Logic` of your own.
        """
        chosen = get_logic(logic)
        if semantics not in SEMANTICS:
            raise AndornotError(unknown("semantics", semantics, SEMANTICS))
        evaluation = self._evaluation
        known = {str(atom): self._value(atom, values) for atom in self.atoms}
        check_same_features(list(known.values()))
        return evaluation.evaluate(known, semantics, chosen)

    def cost(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Cost:
        """Return the cost of `evaluate` for operands that broadcast to `(..., N, M)`: seconds on one core, and memory.

        That of `semantics="exact"`. Where one image's representation `(N, M)` takes more than a few seconds, this is
        a FormulaError, as it is for `evaluate`; how many are computed at once is up to the caller.

        >>> Formula("a & (b | a)").cost((1280, 8)).seconds < 0.1
        True
        """
        if len(shape) < 2 or shape[-2] < 1 or shape[-1] < 2:
            raise ValueError(f"expected a shape (..., N, M) with N ≥ 1 and M ≥ 2, got {tuple(shape)}")
        return self._evaluation.cost(shape, dtype)

    @property
    def _term(self) -> ParsedTerm:
        if self.is_condition:
            raise self._no_term()
        return self._parsed.terms[0]

    def _within(self, root: int) -> "Formula":
        """Return the part of a term that is computed by that operation."""
        program, mentions, positions = self._term
        kept = p.needed(program, root)
        atoms = {str(program[index].value) for index in kept if program[index].op == p.NAME}
        own = tuple(mention for mention in mentions if str(mention.atom) in atoms)
        return self._part(
            self._source, ParsedTerm(p.part(program, kept), own, {new: positions[old] for new, old in enumerate(kept)})
        )

    @cached_property
    def _evaluation(self) -> TermEvaluation:
        return TermEvaluation(self._term.program, self._source, self._term.positions)

    def _value(
        self, atom: Atom, values: Mapping[str, Representation] | Mapping[Atom, Representation]
    ) -> Representation:
        key = atom.name if atom.is_plain else str(atom)
        for given in (atom, key):
            if given in values:
                return values[given]  # type: ignore[index]
        if not atom.is_plain:
            raise self.error_at(atom, f"the value of {key} is not given", "missing-value")
        raise self.unknown_name(atom.name, map(str, values))

    # --- as a value -------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """Return the formula in canonical notation, which parses to an equal formula."""
        terms = [term.program for term in self._parsed.terms]
        text = writing.write(self.condition, terms, roomy=True)
        # A formula typed without spaces may outgrow the limit when they are added.
        return text if len(text) <= parser.MAX_CHARACTERS else writing.write(self.condition, terms, roomy=False)

    def __repr__(self) -> str:
        return f"Formula({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same tree, however written."""
        return self._tree == other._tree if isinstance(other, Formula) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._tree)

    @property
    def _tree(self) -> tuple[Program, ...]:
        return (self.condition, *(term.program for term in self._parsed.terms))


def _hint_at_minus(name: str, known: list[str]) -> str:
    """Return what a name with "-" may have meant: an image named like it, or a difference."""
    minus = 'a "-" without spaces is part of a name; the difference is "{} - {}"'
    cuts = [(name[:at], name[at + 1 :]) for at, character in enumerate(name) if character == "-"]
    for left, right in cuts:
        if left in known and right in known:
            return minus.format(left, right)
    nearest = spelled_like(name, known, 3)
    return (f"{did_you_mean(nearest)} Besides, " if nearest else "") + minus.format(*cuts[0])


def _readings(key: object) -> Iterator[Formula]:
    """Yield the terms that a key may stand for: itself, the one it says, or the one it names."""
    if isinstance(key, Formula):
        yield key
    elif isinstance(key, str):
        for text in (key, write_name(key)):
            with suppress(FormulaError):
                yield Formula(text)
