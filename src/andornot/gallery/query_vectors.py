"""From the terms of formulas to vectors that images are compared with.

How a term of a condition is compared was measured (docs/results.md, *Conditions*). A single positive term is compared
with images as a whole, as in `ab and not b`. Of several, and of negated ones, each may be anywhere in an image, and its
nearest neighbours expand it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..logic import Formula, FormulaError, Representation
from ..similarity import Components, expand_query, from_bytes, num_neighbours
from .names import Binding, BoundFormula, key_of
from .options import SearchOptions
from .plan import Nearest, Term
from .projections import RegionBasis

# Degrees that differ by less, relative to themselves, are equal up to rounding.
_ROUNDING: Final = 1e-6
Values = Mapping[Binding, Representation]


class EmptyQueryError(FormulaError):
    """A query that is like no image more than like any other."""

    def __init__(self, text: str, position: int = 0) -> None:
        message = "nothing is left to look for: this has no feature more than any other"
        super().__init__(message, text, position, code="empty-query")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text, self.position)


class RegionInputs(NamedTuple):
    """What makes the vectors of terms in regions: their basis, and the values of names by its head.

    `rotation` `(d, r)` takes codes of whole images to those of regions. It ignores the other mean and calibration: good
    enough for neighbours, and a product instead of the head for each of them.
    """

    basis: RegionBasis
    values: Values
    rotation: Tensor


class Neighbours(NamedTuple):
    """Finds neighbours in a gallery of so many images: `find` the nearest of vectors, `codes` those of images by id."""

    images: int
    find: Callable[[Tensor, int], Nearest]
    codes: Callable[[np.ndarray], Tensor]


class TermVectors:
    """Makes the vectors of terms."""

    def __init__(self, components: Components, neighbours: Neighbours, options: SearchOptions) -> None:
        self._components, self._neighbours, self._options = components, neighbours, options

    def whole(self, term: Formula, named: Mapping[str, Binding], values: Values) -> Tensor:
        """Return the vector `(d,)` of a term; several examples of `like(…)` have their mean."""
        return _mean(self._components.project(self._degrees(term, named, values)))

    def terms_of(
        self, query: BoundFormula, values: Values, regions: RegionInputs | None, half_of: Callable[[Term], float]
    ) -> list[Term]:
        """Return what the terms of a condition ask for, in their order."""
        formula = query.formula
        positive = formula.positive_terms
        terms = [self._term(term, query, values) for term in formula.terms]
        terms = [term if term.word is None else replace(term, half=half_of(term)) for term in terms]
        anywhere = [
            number
            for number, term in enumerate(formula.terms)
            if terms[number].whole is not None and positive != (term,)
        ]
        if regions is not None:
            for number in anywhere:
                degrees = self._degrees(formula.terms[number], query.named, regions.values)
                terms[number] = replace(terms[number], region=_mean(regions.basis.project(degrees)))
        return self._expanded(terms, anywhere, regions)

    def _term(self, term: Formula, query: BoundFormula, values: Values) -> Term:
        things = [query.named[key_of(atom)] for atom in term.atoms]
        if is_word(term, query.named):
            return Term(word=things[0].meaning)
        own = frozenset(thing.id for thing in things if thing.id is not None)
        return Term(self.whole(term, query.named, values), own=own)

    def _degrees(self, term: Formula, named: Mapping[str, Binding], values: Values) -> Tensor:
        """Return the degrees `(m, N)` of a term, or of each of its examples."""
        parts = term.examples or (term,)
        return torch.stack([self._evaluated(part, named, values) for part in parts])

    def _evaluated(self, term: Formula, named: Mapping[str, Binding], values: Values) -> Tensor:
        known = {key: values[named[key]] for key in map(key_of, term.atoms)}
        degrees = evaluate_term(term, known, self._options).degrees
        refuse_empty(term.source, degrees, position=term.mentions[0].start)
        return degrees

    def _expanded(self, terms: list[Term], anywhere: Sequence[int], regions: RegionInputs | None) -> list[Term]:
        """Return the terms with some of them expanded by their neighbours."""
        count = num_neighbours(self._neighbours.images, self._options.expand)
        queries = [whole for number in anywhere if (whole := terms[number].whole) is not None]
        if not count or not queries:
            return terms
        spare = max(len(terms[number].own) for number in anywhere)
        found = self._neighbours.find(torch.stack(queries), count + spare)
        chosen = [
            np.flatnonzero(~np.isin(found.ids[place], list(terms[number].own)))[:count]
            for place, number in enumerate(anywhere)
        ]
        nearest = [found.ids[place, others] for place, others in enumerate(chosen)]
        weights = [torch.from_numpy(found.scores[place, others]) for place, others in enumerate(chosen)]
        codes = from_bytes(self._neighbours.codes(np.concatenate(nearest)))
        parts = torch.split(codes, [*map(len, nearest)])
        result = list(terms)
        for number, of_term, weight in zip(anywhere, parts, weights, strict=True):
            result[number] = replace(terms[number], whole=_expand_one(terms[number].whole, of_term, weight))
        if regions is not None:
            parts = torch.split(normalize(codes @ regions.rotation, dim=1), [*map(len, nearest)])
            for number, of_term, weight in zip(anywhere, parts, weights, strict=True):
                result[number] = replace(result[number], region=_expand_one(terms[number].region, of_term, weight))
        return result


def _expand_one(query: Tensor | None, neighbours: Tensor, similarities: Tensor) -> Tensor:
    """Return a query `(d,)` expanded by neighbours `(k, d)`."""
    assert query is not None, "a term that is no word has vectors"
    return expand_query(query[None], neighbours[None], similarities[None])[0]


def evaluate_term(term: Formula, values: Mapping[str, Representation], options: SearchOptions) -> Representation:
    """Return the representation of a term, as the options of a search ask for it."""
    return term.evaluate(values, options.semantics, options.logic or "godel")


def is_word(term: Formula, named: Mapping[str, Binding]) -> bool:
    """Return whether a term is a word and nothing else: then it has the word's truth."""
    return len(term.program) == 1 and named[key_of(term.atoms[0])].kind == "word"


def refuse_empty(text: str, degrees: Tensor, *, position: int = 0, needs_direction: bool = True) -> None:
    """Raise an EmptyQueryError for a query with the same, or arbitrary, hits whatever was asked.

    A query without a feature, such as `a - a`, is at one distance from all images by degrees and by containment, and by
    cross-entropy nearest to those that have least. One with all features alike has no direction either.
    """
    most, least = degrees.amax(-1), degrees.amin(-1)
    differs = most - least if needs_direction else most
    if bool(differs <= _ROUNDING * most):
        raise EmptyQueryError(text, position)


def _mean(directions: Tensor) -> Tensor:
    # A unit vector that is normalised again has other last digits: `a` and `like(a)` have the same.
    return directions[0] if len(directions) == 1 else normalize(directions.mean(0), dim=0)
