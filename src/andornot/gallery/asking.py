"""From the terms of formulas to what pictures are compared with.

How a term of a condition is asked for was measured (docs/results.md, *Conditions*). The only one that is asked for is a
picture as a whole, as in `ab and not b`. Of several, and of what is not to be seen, each may be anywhere in a picture,
and its own nearest pictures say what kind of thing it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..logic import Formula, FormulaError, Representation
from .centred import Centred
from .conditions import Term
from .engines import Engine
from .filters import Selection
from .likeness.components import from_bytes
from .likeness.neighbours import expand, neighbours_in
from .names import Named, Resolved, key_of
from .options import SearchOptions

# Degrees that differ by less, relative to themselves, are equal but for their rounding.
_ROUNDING: Final = 1e-6
Values = Mapping[Named, Representation]


class EmptyQueryError(FormulaError):
    """A query that is like no picture more than like any other."""

    def __init__(self, text: str, position: int = 0) -> None:
        super().__init__("nothing is left to look for: this has no feature more than any other", text, position)

    def __reduce__(self) -> tuple[type["EmptyQueryError"], tuple[str, int]]:  # type: ignore[override]
        return type(self), (self.text, self.position)


class Basis(Protocol):
    """What the regions of a gallery are compared by."""

    def project(self, degrees: Tensor) -> Tensor:
        """Degrees `(..., N)` as regions are stored, `(..., r)` of length 1."""


class InRegions(NamedTuple):
    """What terms are asked by in regions: the values of pictures there; `turned` `(d, r)` takes components there.

    It takes no account of another mean and another calibration: good enough for neighbours, and a product instead of
    the head for each of them.
    """

    basis: Basis
    values: Values
    turned: Tensor


class Asking:
    """Makes the vectors of terms, in one state of a gallery."""

    def __init__(self, centred: Centred, engine: Engine, everything: Selection, options: SearchOptions) -> None:
        self._centred, self._engine, self._everything = centred, engine, everything
        self._options = options

    def whole(self, term: Formula, named: Mapping[str, Named], values: Values) -> Tensor:
        """The components `(d,)` of a term; several examples of `like(…)` have those of their mean."""
        return _mean(self._centred.components.project(self._degrees(term, named, values)))

    def terms_of(self, query: Resolved, values: Values, in_regions: InRegions | None) -> list[Term]:
        """What the terms of a condition ask for, in their order."""
        formula = query.formula
        asked_for = formula.positive_terms
        terms = [self._term(term, query, values) for term in formula.terms]
        anywhere = [
            number
            for number, term in enumerate(formula.terms)
            if terms[number].whole is not None and asked_for != (term,)
        ]
        if in_regions is not None:
            for number in anywhere:
                degrees = self._degrees(formula.terms[number], query.named, in_regions.values)
                terms[number] = replace(terms[number], region=_mean(in_regions.basis.project(degrees)))
        return self._with_neighbours(terms, anywhere, in_regions)

    def _term(self, term: Formula, query: Resolved, values: Values) -> Term:
        things = [query.named[key_of(atom)] for atom in term.atoms]
        if is_word(term, query.named):
            return Term(meaning=things[0].meaning)
        own = frozenset(thing.id for thing in things if thing.id is not None)
        return Term(self.whole(term, query.named, values), own=own)

    def _degrees(self, term: Formula, named: Mapping[str, Named], values: Values) -> Tensor:
        """The degrees `(m, N)` of a term, or of each of its examples."""
        parts = term.examples or (term,)
        return torch.stack([self._evaluated(part, named, values) for part in parts])

    def _evaluated(self, term: Formula, named: Mapping[str, Named], values: Values) -> Tensor:
        known = {key: values[named[key]] for key in map(key_of, term.atoms)}
        degrees = evaluate(term, known, self._options).degrees
        refuse_empty(term.source, degrees, position=term.mentions[0].start)
        return degrees

    def _with_neighbours(self, terms: list[Term], anywhere: Sequence[int], in_regions: InRegions | None) -> list[Term]:
        count = neighbours_in(len(self._everything), self._options.expand)
        queries = [whole for number in anywhere if (whole := terms[number].whole) is not None]
        if not count or not queries:
            return terms
        spare = max(len(terms[number].own) for number in anywhere)
        rows, alike = self._engine.search(torch.stack(queries), count + spare, self._everything)
        ids = self._everything.snapshot.ids_of_rows(rows)
        others = [
            np.flatnonzero(~np.isin(ids[place], list(terms[number].own)))[:count]
            for place, number in enumerate(anywhere)
        ]
        nearest = [rows[place, chosen] for place, chosen in enumerate(others)]
        weights = [torch.from_numpy(alike[place, chosen]) for place, chosen in enumerate(others)]
        codes = from_bytes(self._centred.codes_of(np.concatenate(nearest)))
        parts = torch.split(codes, [*map(len, nearest)])
        result = list(terms)
        for number, of_term, weight in zip(anywhere, parts, weights, strict=True):
            result[number] = replace(terms[number], whole=_expanded(terms[number].whole, of_term, weight))
        if in_regions is not None:
            parts = torch.split(normalize(codes @ in_regions.turned, dim=1), [*map(len, nearest)])
            for number, of_term, weight in zip(anywhere, parts, weights, strict=True):
                result[number] = replace(result[number], region=_expanded(terms[number].region, of_term, weight))
        return result


def _expanded(query: Tensor | None, nearest: Tensor, alike: Tensor) -> Tensor:
    """A query `(d,)` with its nearest pictures `(k, d)`."""
    assert query is not None, "a term that is no word has vectors"
    return expand(query[None], nearest[None], alike[None])[0]


def evaluate(term: Formula, values: Mapping[str, Representation], options: SearchOptions) -> Representation:
    """The representation of a term, as the options of a search ask for it."""
    return term.evaluate(values, options.semantics, options.logic or "godel")


def is_word(term: Formula, named: Mapping[str, Named]) -> bool:
    """Whether a term is a word and nothing else: then it has the word's truth."""
    return len(term.program) == 1 and named[key_of(term.atoms[0])].kind == "word"


def refuse_empty(text: str, degrees: Tensor, *, position: int = 0, needs_direction: bool = True) -> None:
    """An EmptyQueryError for what the same pictures, or arbitrary ones, would be the hits of, whatever was asked.

    A query without a feature, such as `a - a`, is at one distance from all pictures by degrees and by containment, and
    by cross-entropy nearest to those that have least. One with all features alike has no direction either.
    """
    most, least = degrees.amax(-1), degrees.amin(-1)
    alike = most - least if needs_direction else most
    if bool(alike <= _ROUNDING * most):
        raise EmptyQueryError(text, position)


def _mean(directions: Tensor) -> Tensor:
    return normalize(directions.mean(0), dim=0)
