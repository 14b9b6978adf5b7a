"""Measure operability: whether a query computed by an operator finds what the plain image finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

import torch
from torch import Tensor

from ...logic import Formula
from ...progress import track
from ..metrics.operability import Key, Measurement, Rates
from ..metrics.ranking import occurrence_rates
from .operators import (
    OPERATORS,
    TRUTH,
    Condition,
    GalleryTruths,
    Operands,
    Operator,
    Space,
    condition_rates,
    gallery_vectors,
    in_space,
    query_vectors,
    truth_rates,
)
from .retrieval import EncodedImages, EncodedTask

# Number of neighbours averaged in `near_b`.
NEIGHBOURS: Final = 20
# Query images per class used to tune a weight; all other classes together provide enough of them.
TUNING_IMAGES: Final = 6


def measure_operability(
    task: EncodedTask,
    *,
    top: int,
    operators: Sequence[Operator] = OPERATORS,
    conditions: Sequence[Condition] = (),
    progress: bool | None = None,
) -> Measurement:
    """Return occurrence rates for each search method, over all pairs of classes."""
    search = _TaskSearch(task, top)
    weights = _tuned_weights(search, [operator for operator in operators if operator.weights])
    rates: dict[Key, list[Tensor]] = {}
    with track("searching", len(task.pairs), "pairs", shown=progress, delay=2) as bar:
        for number, pair in enumerate(task.pairs):
            requests = list(_plain_requests(search, operators, pair))
            for operator in operators:
                weight = (weights[operator][number],) if operator.weights else ()
                requests += _requests(search, operator, pair, weight)
            for key, found in search.rates(requests, pair).items():
                rates.setdefault(key, []).append(found)
            bar.update(1)
    chosen = {Key(o.query, o.name, distance): tuple(weights[o]) for o in weights for distance in o.distances}
    shares = task.labels.float().mean(0)
    measured = {key: Rates(torch.stack(found), chosen.get(key, ())) for key, found in rates.items()}
    return Measurement(
        measured | (_measure_conditions(task, conditions, top, progress) if conditions else {}),
        torch.stack([shares[list(pair)] for pair in task.pairs]),
        list(task.pairs),
    )


def _measure_conditions(
    task: EncodedTask, conditions: Sequence[Condition], top: int, progress: bool | None
) -> dict[Key, Rates]:
    """Return the rates of conditions, and of the plain images they are compared with.

    As in galleries, query expansion applies to terms of `and` and to negated terms, not to a single positive term.
    """
    truths, pairs = GalleryTruths(task.gallery.representation.degrees), list(task.pairs)
    degrees = {number: images.representation.degrees for number, images in task.singles.items()}
    plain_truths = {number: truths.of_queries(of_class) for number, of_class in degrees.items()}
    expanded = {number: truths.of_queries(of_class, expanded=True) for number, of_class in degrees.items()}
    plain: dict[str, list[Tensor]] = {"a": [], "ab": []}
    # Keyed by formula, because a weight of 1 gives the same condition as no weight.
    found: dict[tuple[str, Formula], list[Tensor]] = {
        (condition.query, formula): [] for condition in conditions for formula in condition.formulas
    }
    with track("searching by truth", len(pairs), "pairs", shown=progress, delay=2) as bar:
        for pair in pairs:
            both = truths.of_queries(task.pairs[pair].representation.degrees)
            orders = [(a, b, _labels_of(task, a, b)) for a, b in (pair, pair[::-1])]
            plain["a"].append(torch.stack([truth_rates(plain_truths[a], of, top).mean(0) for a, _, of in orders]))
            plain["ab"].append(torch.stack([truth_rates(both, of, top).mean(0) for _, _, of in orders]))
            for (query, formula), rates_of_pairs in found.items():
                rates_of_pairs.append(
                    torch.stack(
                        [
                            condition_rates(formula, expanded[a] if query == "a|b" else both, expanded[b], of, top)
                            for a, b, of in orders
                        ]
                    )
                )
            bar.update(1)
    rates = {Key(name, "", TRUTH): Rates(torch.stack(of_pairs)) for name, of_pairs in plain.items()}
    for condition in conditions:
        values = torch.stack([torch.stack(found[condition.query, formula]) for formula in condition.formulas])
        margins = (values[..., 0] - values[..., 1]).mean(-1)
        best = [int(margins[:, disjoint_pairs(pairs, pair)].mean(1).argmax()) for pair in pairs]
        weights = tuple(condition.weights[number] for number in best) if condition.weights else ()
        rates[Key(condition.query, condition.name, TRUTH)] = Rates(values[best, range(len(pairs))], weights)
    return rates


def _labels_of(task: EncodedTask, a: int, b: int) -> Tensor:
    """Return which gallery images show a, b, and both, `(n, 3)`."""
    columns = task.labels[:, [a, b]]
    return torch.cat([columns, columns.all(1, keepdim=True)], 1)


class _Request(NamedTuple):
    """Queries `(q, d)` of one search method, for the pair in its order (0), reversed (1), or both (None)."""

    key: Key
    order: int | None
    vectors: Tensor


class _TaskSearch:
    """A task with cached gallery vectors and neighbours."""

    def __init__(self, task: EncodedTask, top: int) -> None:
        self.task, self.top = task, top
        self._galleries: dict[str, Tensor] = {}

    def gallery(self, distance: str) -> Tensor:
        if distance not in self._galleries:
            activations, representation = self.task.gallery
            self._galleries[distance] = gallery_vectors(activations, representation, distance).contiguous()
        return self._galleries[distance]

    @cached_property
    def near(self) -> dict[int, EncodedImages]:
        """Return, for each query image of a class, the mean of its nearest gallery images."""
        return {number: self._mean_neighbours(images) for number, images in self.task.singles.items()}

    def _mean_neighbours(self, images: EncodedImages) -> EncodedImages:
        gallery = self.task.gallery
        products = query_vectors(images.representation, "degrees") @ self.gallery("degrees").T
        nearest = products.topk(min(NEIGHBOURS, products.shape[1]), dim=1).indices
        probs = gallery.representation.probs[nearest].mean(1)
        return EncodedImages(gallery.activations[nearest].mean(1), type(gallery.representation)(probs, validate=False))

    def operands(self, space: Space, pair: tuple[int, int], most: int | None = None) -> Operands:
        """Return the operands of a pair in either order, with the first `most` images of each."""
        ascending = (min(pair), max(pair))
        chosen = (self.task.singles[pair[0]], self.task.singles[pair[1]], self.task.pairs[ascending])
        values = [in_space(*encoded, space)[:most] for encoded in (*chosen, self.near[pair[1]])]
        return Operands(*values)

    def rates(self, requests: Iterable[_Request], pair: tuple[int, int]) -> dict[Key, Tensor]:
        """Return mean rates `(2, 3)` for each key; queries with the same distance are searched together."""
        labels = _labels_of(self.task, *pair)
        result: dict[Key, Tensor] = {}
        by_distance = sorted(requests, key=lambda request: request.key.distance)
        for distance, group in groupby(by_distance, key=lambda request: request.key.distance):
            together = list(group)
            sizes = [len(request.vectors) for request in together]
            found = occurrence_rates(
                torch.cat([request.vectors for request in together]), self.gallery(distance), labels, self.top
            )
            for request, part in zip(together, torch.split(found, sizes), strict=True):
                found_mean = part.mean(0)
                reversed_mean = found_mean[[1, 0, 2]]  # for (b, a) the labels are swapped
                rates = result.setdefault(request.key, torch.stack([found_mean, reversed_mean]))
                if request.order is not None:
                    rates[request.order] = (found_mean, reversed_mean)[request.order]
        return result


def _plain_requests(search: _TaskSearch, operators: Sequence[Operator], pair: tuple[int, int]) -> Iterator[_Request]:
    """Yield the reference queries: plain images, for each distance in use."""
    for distance in dict.fromkeys(distance for operator in operators for distance in operator.distances):
        space: Space = "features" if distance == "features" else "representation"
        for order, ordered in enumerate((pair, pair[::-1])):
            x = search.operands(space, ordered)
            yield _Request(Key("a", "", distance), order, query_vectors(x.a, distance))
        yield _Request(Key("ab", "", distance), None, query_vectors(x.ab, distance))


def _requests(
    search: _TaskSearch, operator: Operator, pair: tuple[int, int], weight: tuple[float, ...], most: int | None = None
) -> Iterator[_Request]:
    """Yield the queries for all combinations of two operands: the first in rows, the second in columns.

    The third operand of the relative negation, a, is paired with b.
    """
    symmetric = operator.query == "a|b"
    for order, ordered in enumerate((pair,) if symmetric else (pair, pair[::-1])):
        x = search.operands(operator.space, ordered, most)
        if operator.query == "ab&~b|a":
            x = _pair_up(x)
        rows = x._replace(a=x.a[:, None]) if symmetric else x._replace(ab=x.ab[:, None])
        value = operator.function(rows, *weight)
        for distance in operator.distances:
            vectors = query_vectors(value, distance).flatten(0, 1)
            key = Key(operator.query, operator.name, distance)
            yield _Request(key, None if symmetric else order, vectors)


def _pair_up(x: Operands) -> Operands:
    """Truncate the images of a and b to the same number, because small classes may differ in size."""
    count = min(len(x.a), len(x.b))
    return x._replace(a=x.a[:count], b=x.b[:count], near_b=x.near_b[:count])


def _tuned_weights(search: _TaskSearch, operators: Sequence[Operator]) -> dict[Operator, list[float]]:
    """Return, for each pair of classes, the weight that is best on the pairs that share no class with it.

    The best weight has the largest mean of (rate of a - rate of b) over those pairs, or with too few classes, over all
    other pairs.
    """
    pairs = list(search.task.pairs)
    tuned = {}
    for operator in operators:
        margins = torch.empty(len(operator.weights), len(pairs))
        for row, weight in enumerate(operator.weights):
            for column, pair in enumerate(pairs):
                requests = _requests(search, operator, pair, (weight,), TUNING_IMAGES)
                (rates,) = search.rates(requests, pair).values()
                margins[row, column] = (rates[:, 0] - rates[:, 1]).mean()
        tuned[operator] = [operator.weights[int(margins[:, disjoint_pairs(pairs, p)].mean(1).argmax())] for p in pairs]
    return tuned


def disjoint_pairs(pairs: Sequence[tuple[int, int]], pair: tuple[int, int]) -> list[int]:
    """Return the indices of the pairs that share no class with `pair`; of all other pairs if there are none."""
    apart = [number for number, other in enumerate(pairs) if not set(other) & set(pair)]
    return apart or [number for number, other in enumerate(pairs) if other != pair] or [0]
