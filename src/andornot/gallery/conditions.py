"""The truth of a condition in the pictures of a gallery, and the pictures in which it is highest."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..logic import Formula
from .centred import Centred, evenly
from .engines import EXACT_UP_TO, Engine, Scan
from .engines.exact import Best
from .filters import Selection
from .likeness.products import best_region, similarities, where_best
from .likeness.truth import ENOUGH_PICTURES, Scale, scale_of

# Pictures at once.
_BLOCK: Final = 2**14
# Of a large gallery the regions of so many pictures are looked at: those in which the condition is truest as a whole.
_CANDIDATES: Final = EXACT_UP_TO
# What other engines are asked for, for each term; Milvus gives no more than 16,384.
_CANDIDATES_ELSEWHERE: Final = 10_000


class Regions(Protocol):
    """The regions of the pictures of one state of a gallery."""

    def has(self, rows: np.ndarray) -> np.ndarray:
        """Which rows have regions, `(n,)` bool."""

    def codes(self, rows: np.ndarray) -> Tensor:
        """Those regions in bytes, `(n, R, r)`."""


class WordTruths(Protocol):
    """What is known of words in pictures."""

    def truth(self, meaning: Any, rows: np.ndarray) -> Tensor:
        """The truth of a word in rows, `(n,)`."""


@dataclass(frozen=True)
class Term:
    """What a term asks of a picture: to be like `whole` `(d,)`, to have a region like `region` `(r,)`, or a word.

    One with both is looked for in regions where a picture has them. `own` are the ids of the pictures it is made of.
    """

    whole: Tensor | None = None
    region: Tensor | None = None
    meaning: Any = None
    own: frozenset[int] = frozenset()


class Found(NamedTuple):
    """The best rows `(k,)`, the truths in them, and those of what is asked for, without what is not to be seen.

    `places` has by the number of a term which region of each row is most like it. A picture without regions has -1
    there, and a term that is not looked for in regions nothing.
    """

    rows: np.ndarray
    truths: np.ndarray
    asked_for: np.ndarray
    places: dict[int, np.ndarray]


class Truths:
    """The truths of terms in pictures: how far each stands out in the gallery, as a sample of it tells."""

    def __init__(
        self,
        terms: Sequence[Term],
        centred: Centred,
        everything: Selection,
        regions: Regions | None = None,
        words: WordTruths | None = None,
    ) -> None:
        self._centred, self._regions, self._words = centred, regions, words
        self._sample = evenly(everything.rows, ENOUGH_PICTURES)
        self._wholes = {number: term.whole for number, term in enumerate(terms) if term.whole is not None}
        in_regions = {number: term.region for number, term in enumerate(terms) if term.region is not None}
        self._in_regions = in_regions if regions is not None else {}
        self._meanings = {number: term.meaning for number, term in enumerate(terms) if term.whole is None}

    @property
    def looks_at_regions(self) -> bool:
        """Whether a term may be anywhere in a picture."""
        return bool(self._in_regions)

    def of(self, rows: np.ndarray) -> list[Tensor]:
        """For each term its truths `(n,)` in rows, which ascend.

        In double precision: torch rounds the last numbers of a block in another way, and the same picture should have
        the same truth wherever it is.
        """
        truths = self._by_words(rows)
        has = self._have_regions(rows)
        if self._wholes and (not has.all() or len(self._in_regions) < len(self._wholes)):
            found = self.whole_scale.truth(similarities(self._centred.codes(rows), self._whole_queries).double())
            truths.update(zip(self._wholes, found, strict=True))
        if has.any():
            found = self._region_scale.truth(self._in_best_regions(rows).double())
            for number, values in zip(self._in_regions, found, strict=True):
                truths[number] = values if has.all() else torch.where(torch.from_numpy(has), values, truths[number])
        return [truths[number] for number in sorted(truths)]

    def places(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """The best region of each of a few rows for each term that is looked for in regions; -1 where there is none."""
        if self._regions is None or not self._in_regions:
            return {}
        has = self._have_regions(rows)
        best = where_best(self._regions.codes(rows), self._region_queries).numpy()
        return {number: np.where(has, best[place], -1) for place, number in enumerate(self._in_regions)}

    @cached_property
    def whole_scale(self) -> Scale:
        """How alike the pictures of the gallery are to each term that is a picture."""
        return scale_of(similarities(self._centred.codes(self._sample), self._whole_queries))

    @cached_property
    def _region_scale(self) -> Scale:
        return scale_of(self._in_best_regions(self._sample[self._have_regions(self._sample)]))

    @cached_property
    def _whole_queries(self) -> Tensor:
        return torch.stack(list(self._wholes.values()))

    @cached_property
    def _region_queries(self) -> Tensor:
        return torch.stack(list(self._in_regions.values()))

    def _have_regions(self, rows: np.ndarray) -> np.ndarray:
        if self._regions is None or not self._in_regions:
            return np.zeros(len(rows), bool)
        return self._regions.has(rows)

    def _in_best_regions(self, rows: np.ndarray) -> Tensor:
        assert self._regions is not None, "terms are looked for in regions where there are some"
        return best_region(self._regions.codes(rows), self._region_queries)

    def _by_words(self, rows: np.ndarray) -> dict[int, Tensor]:
        if not self._meanings:
            return {}
        assert self._words is not None, "a term that is no vector is a word"
        return {number: self._words.truth(meaning, rows).double() for number, meaning in self._meanings.items()}


def truth_of_asked_for(formula: Formula, truths: Sequence[Tensor], logic: str) -> Tensor:
    """The truth of a condition in pictures that show nothing of what they should not: `not` vouches for no match."""
    asked_for = formula.positive_terms
    pairs = zip(formula.terms, truths, strict=True)
    return formula.truth_of_terms(
        [truth if term in asked_for else torch.zeros_like(truth) for term, truth in pairs], logic
    )


class ConditionSearch:
    """Finds the pictures of one state of a gallery in which a condition is truest."""

    def __init__(
        self,
        centred: Centred,
        engine: Engine,
        everything: Selection,
        regions: Regions | None = None,
        words: WordTruths | None = None,
    ) -> None:
        self._centred, self._engine, self._everything = centred, engine, everything
        self._regions, self._words = regions, words

    def search(self, formula: Formula, terms: Sequence[Term], logic: str, top: int, selection: Selection) -> Found:
        """The `top` truest rows of a selection, which is not empty, the truest first; of equal ones the lower row."""
        truths = Truths(terms, self._centred, self._everything, self._regions, self._words)
        rows = self._candidates(formula, terms, logic, selection, truths)
        best = Best(1, top)
        for start in range(0, len(rows), _BLOCK):
            chosen = rows[start : start + _BLOCK]
            best.add(chosen, formula.truth_of_terms(truths.of(chosen), logic).float()[None])
        ascending, back = np.unique(best.rows[0], return_inverse=True)
        asked_for = truth_of_asked_for(formula, truths.of(ascending), logic).float().numpy()[back]
        places_of = {number: found[back] for number, found in truths.places(ascending).items()}
        return Found(best.rows[0], best.scores[0], asked_for, places_of)

    def _candidates(
        self, formula: Formula, terms: Sequence[Term], logic: str, selection: Selection, truths: Truths
    ) -> np.ndarray:
        """Rows of a selection, which ascend, with the truest ones among them."""
        rows = selection.rows
        nothing = [torch.zeros(1)] * len(terms)
        if len(rows) <= EXACT_UP_TO or float(formula.truth_of_terms(nothing, logic)) > 0:
            return rows  # pictures that have nothing of any term may be the truest
        asked_for = [formula.terms.index(term) for term in formula.positive_terms]
        elsewhere = not isinstance(self._engine, Scan) and all(terms[number].whole is not None for number in asked_for)
        if elsewhere:
            queries = [whole for number in asked_for if (whole := terms[number].whole) is not None]
            found, _ = self._engine.search(torch.stack(queries), _CANDIDATES_ELSEWHERE, selection)
            return np.unique(found)
        if not truths.looks_at_regions:
            return rows  # no more would be read of each candidate than of all
        return self._best_as_a_whole(formula, terms, logic, rows)

    def _best_as_a_whole(self, formula: Formula, terms: Sequence[Term], logic: str, rows: np.ndarray) -> np.ndarray:
        wholes = Truths(terms, self._centred, self._everything, None, self._words)
        values = torch.empty(len(rows))
        for start in range(0, len(rows), _BLOCK):
            values[start : start + _BLOCK] = formula.truth_of_terms(wholes.of(rows[start : start + _BLOCK]), logic)
        best = np.zeros(len(rows), bool)
        best[values.topk(min(_CANDIDATES, len(rows)), sorted=False).indices.numpy()] = True
        return np.asarray(rows[best])
