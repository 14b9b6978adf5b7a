"""`Formula`: a query such as `(a | b) & ~c` or `a and not b`, parsed once, evaluated on any representations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..choices import SEMANTICS
from ..errors import AndornotError, did_you_mean, spelled_like, unknown
from . import parser, truth
from . import program as p
from .atoms import Atom, is_bare
from .atoms import write_name as write_name
from .evaluation import Cost, TermEvaluation
from .operators import Logic, get_logic
from .parser import Mention, Parsed, ParsedTerm
from .program import Node, Program
from .representation import Representation, check_same_features
from .tokens import FormulaError, FormulaErrorCode

# The longest part of an unknown name shown in an error message, in characters.
_LONGEST: Final = 100

Degrees = TypeVar("Degrees", Tensor, np.ndarray)


class Formula:
    """A term, which describes an image, or a condition, which images can satisfy.

    A term combines atoms with `|`, `&`, `~`, `-`, `at_least(k, …)` and `like(…)`. A condition combines terms with `or`,
    `and` and `not`, optionally with weights: `2*a`. An atom is a name, optionally in "quotes", with a crop
    `a[left, top, right, bottom]`, or with a kind, `word:a` or `image:a`.

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
        """Parse `text`, or raise a FormulaError with a caret under the mistake."""
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
        """The formula as written; for a term of a condition, its canonical notation."""
        return str(self) if self._text is None else self._text

    @property
    def source(self) -> str:
        """The text that positions of mentions refer to; for a term of a condition, that of the whole condition."""
        return self._source

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the formula, in the order of their first mention."""
        return tuple(dict.fromkeys(mention.name for mention in self.mentions))

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms of the formula (names with kind and crop), in the order of their first mention.

        >>> Formula("word:dog and a.jpg[0, 0, 200, 100]").atoms[1]
        Atom(name='a.jpg', kind='', crop=Crop(left=0, top=0, right=200, bottom=100))
        """
        return tuple(dict.fromkeys(mention.atom for mention in self.mentions))

    @property
    def mentions(self) -> tuple[Mention, ...]:
        """All mentions of atoms, in the order of the text; positions refer to `source`.

        >>> f = Formula("a.jpg and not word:dog")
        >>> [f.text[mention.start : mention.end] for mention in f.mentions]
        ['a.jpg', 'word:dog']
        """
        return self._parsed.mentions

    @property
    def is_condition(self) -> bool:
        """Whether the formula contains `and`, `or`, `not` or a weight; False for a single term."""
        return len(self._parsed.condition) > 1

    @cached_property
    def terms(self) -> tuple["Formula", ...]:
        """The terms of a condition, each once, in the order of first mention; for a term, the term itself."""
        if not self.is_condition:
            return (self,)
        return tuple(self._part(self._source, term) for term in self._parsed.terms)

    @property
    def positive_terms(self) -> tuple["Formula", ...]:
        """The terms that occur without `not`, after expanding brackets."""
        return tuple(self.terms[number] for number in sorted(truth.signs_of(self._parsed.condition)[0]))

    @property
    def negative_terms(self) -> tuple["Formula", ...]:
        """The terms that occur with `not`, after expanding brackets. A term can be both positive and negative.

        >>> f = Formula("a and not (b or not c) and not a")
        >>> f.positive_terms, f.negative_terms
        ((Formula('a'), Formula('c')), (Formula('a'), Formula('b')))
        """
        return tuple(self.terms[number] for number in sorted(truth.signs_of(self._parsed.condition)[1]))

    @property
    def condition(self) -> Program:
        """The operations of a condition without duplicates, root last; the value of a TERM is its index in `terms`.

        >>> [(node.op, node.args, node.value) for node in Formula("not 2*a").condition]
        [('term', (), 0), ('weight', (0,), 2.0), ('not', (1,), 0)]
        """
        return self._parsed.condition

    @property
    def program(self) -> Program:
        """The operations of a term in the order of evaluation, without duplicates, root last.

        >>> Formula("a & ~a").program
        (Node(op='name', args=(), value='a'), Node(op='not', args=(0,), value=0), Node(op='and', args=(0, 1), value=0))
        """
        return self._term.program

    @property
    def examples(self) -> tuple["Formula", ...]:
        """The operands of a term `like(…)`; empty for other terms.

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
        """Return the error for a condition where a term is required; it points at the first keyword or weight."""
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
        """Compute the truth of the condition for each image from the truths of its terms (0 to 1, broadcast).

        Keys are terms or their texts, in which spaces do not matter. `logic` is "product" (AND is a·b, OR is
        a + b - a·b), "godel" (minimum, maximum) or "lukasiewicz" (max(0, a + b - 1), min(1, a + b)); NOT is always
        1 - t. For NumPy arrays, the result is an array. It shares no memory with the inputs.
        """
        given = self._by_term(values)
        terms = truth.checked(dict(zip(map(str, self.terms), given, strict=True)))
        result = self.truth_of_terms(terms, logic)
        if any(result is term for term in terms):  # a single term: copy
            result = result.clone()
        return result if isinstance(given[0], Tensor) else result.numpy()

    def truth_of_terms(self, truths: Sequence[Tensor], logic: str = "product") -> Tensor:
        """Compute `truth` without checks, from tensors in the order of `terms`, for blocks of images.

        The result is non-decreasing in the truth of terms that are only positive, and non-increasing in that of terms
        that are only negative. So the highest truths of the former with the lowest of the latter give an upper bound.

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
        """Compute the representation of a term from those of its atoms; leading dimensions broadcast.

        Keys are atoms or their texts (the name, unless the atom has a kind or a crop). `semantics="exact"` treats all
        mentions of a name as the same random variable, so that the laws of logic hold; `"independent"`, the paper's,
        treats each mention as an independent variable with the same distribution. They differ only for names that
        occur more than once. `like(…)` is the mean of its examples' distributions, as a variable of its own. `logic` is
        "godel" (the paper's), "lukasiewicz", "product", or a custom `Logic`.
        """
        chosen = get_logic(logic)
        if semantics not in SEMANTICS:
            raise AndornotError(unknown("semantics", semantics, SEMANTICS))
        evaluation = self._evaluation
        known = {str(atom): self._value(atom, values) for atom in self.atoms}
        check_same_features(list(known.values()))
        return evaluation.evaluate(known, semantics, chosen)

    def cost(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Cost:
        """Estimate the cost of `evaluate` with `semantics="exact"` for operands that broadcast to `(..., N, M)`.

        Like `evaluate`, it raises a FormulaError if one image `(N, M)` takes more than a few seconds. It sets no limit
        for batches.

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
        """Return the subterm with this root."""
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
        text = p.write(self.condition, terms, roomy=True)
        # Added spaces may make a formula too long that was typed without them.
        return text if len(text) <= parser.MAX_CHARACTERS else p.write(self.condition, terms, roomy=False)

    def __repr__(self) -> str:
        return f"Formula({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same syntax tree."""
        return self._tree == other._tree if isinstance(other, Formula) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._tree)

    @property
    def _tree(self) -> tuple[Program, ...]:
        return (self.condition, *(term.program for term in self._parsed.terms))


def _hint_at_minus(name: str, known: list[str]) -> str:
    """Return a hint for an unknown name with "-": a similar name, or a difference."""
    minus = 'a "-" without spaces is part of a name; the difference is "{} - {}"'
    cuts = [(name[:at], name[at + 1 :]) for at, character in enumerate(name) if character == "-"]
    for left, right in cuts:
        if left in known and right in known:
            return minus.format(left, right)
    nearest = spelled_like(name, known, 3)
    return (f"{did_you_mean(nearest)} Besides, " if nearest else "") + minus.format(*cuts[0])


def _readings(key: object) -> Iterator[Formula]:
    """Yield the terms that a key may stand for: the key itself, its text parsed as a formula, or as a name."""
    if isinstance(key, Formula):
        yield key
    elif isinstance(key, str):
        for text in (key, write_name(key)):
            with suppress(FormulaError):
                yield Formula(text)
