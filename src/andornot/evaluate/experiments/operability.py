"""Operability: whether a query made by an operator finds what a picture that needs no operator finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Final, NamedTuple

import torch
from torch import Tensor

from ...logic import Formula
from ...progress import track
from ..metrics.occurrence import occurrence_rates
from ..metrics.operability import Key, Measurement, Rates
from .compared_conditions import TRUTH, Condition, Truths, condition_rates, rates_of_truths
from .compared_operators import OPERATORS, Operands, Operator, Space, gallery_vectors, in_space, query_vectors
from .retrieval import Encoded, EncodedRetrieval

# Neighbours that `near_b` is the mean of.
NEIGHBOURS: Final = 20
# A weight is tuned on the combinations of this many of the pictures: other classes have enough of them together.
_TUNING_PICTURES: Final = 6


def measure_operability(
    task: EncodedRetrieval,
    *,
    top: int,
    operators: Sequence[Operator] = OPERATORS,
    conditions: Sequence[Condition] = (),
    progress: bool | None = None,
) -> Measurement:
    """Occurrence rates for each way to search, over all pairs of classes."""
    search = _Search(task, top)
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
        measured | (_by_truth(task, conditions, top, progress) if conditions else {}),
        torch.stack([shares[list(pair)] for pair in task.pairs]),
    )


def _by_truth(
    task: EncodedRetrieval, conditions: Sequence[Condition], top: int, progress: bool | None
) -> dict[Key, Rates]:
    """The rates of conditions, and of the plain pictures that they are compared with.

    A lone positive term is the whole picture; what must be there with something else, or must not be there, is asked
    for with its neighbours.
    """
    truths, pairs = Truths(task.gallery.representation.degrees), list(task.pairs)
    degrees = {number: pictures.representation.degrees for number, pictures in task.singles.items()}
    alone = {number: truths.of(of_class) for number, of_class in degrees.items()}
    spoken_for = {number: truths.of(of_class, expanded=True) for number, of_class in degrees.items()}
    plain: dict[str, list[Tensor]] = {"a": [], "ab": []}
    # By formula: a weight of 1 is the condition without one.
    found: dict[tuple[str, Formula], list[Tensor]] = {
        (condition.query, formula): [] for condition in conditions for formula in condition.formulas
    }
    with track("searching by truth", len(pairs), "pairs", shown=progress, delay=2) as bar:
        for pair in pairs:
            both = truths.of(task.pairs[pair].representation.degrees)
            orders = [(a, b, _labels_of(task, a, b)) for a, b in (pair, pair[::-1])]
            plain["a"].append(torch.stack([rates_of_truths(alone[a], of, top).mean(0) for a, _, of in orders]))
            plain["ab"].append(torch.stack([rates_of_truths(both, of, top).mean(0) for _, _, of in orders]))
            for (query, formula), rates_of_pairs in found.items():
                rates_of_pairs.append(
                    torch.stack(
                        [
                            condition_rates(formula, spoken_for[a] if query == "a|b" else both, spoken_for[b], of, top)
                            for a, b, of in orders
                        ]
                    )
                )
            bar.update(1)
    rates = {Key(name, "", TRUTH): Rates(torch.stack(of_pairs)) for name, of_pairs in plain.items()}
    for condition in conditions:
        values = torch.stack([torch.stack(found[condition.query, formula]) for formula in condition.formulas])
        margins = (values[..., 0] - values[..., 1]).mean(-1)
        best = [int(margins[:, _others(pairs, pair)].mean(1).argmax()) for pair in pairs]
        weights = tuple(condition.weights[number] for number in best) if condition.weights else ()
        rates[Key(condition.query, condition.name, TRUTH)] = Rates(values[best, range(len(pairs))], weights)
    return rates


def _labels_of(task: EncodedRetrieval, a: int, b: int) -> Tensor:
    """Which pictures of the gallery show a, b, and both, `(n, 3)`."""
    columns = task.labels[:, [a, b]]
    return torch.cat([columns, columns.all(1, keepdim=True)], 1)


class _Request(NamedTuple):
    """Queries `(q, d)` of one way to search, for the pair as it is (0), reversed (1), or alike for both (None)."""

    key: Key
    order: int | None
    vectors: Tensor


class _Search:
    """A task, with what is needed again and again computed once."""

    def __init__(self, task: EncodedRetrieval, top: int) -> None:
        self.task, self.top = task, top
        self._galleries: dict[str, Tensor] = {}

    def gallery(self, distance: str) -> Tensor:
        if distance not in self._galleries:
            features, representation = self.task.gallery
            self._galleries[distance] = gallery_vectors(features, representation, distance).contiguous()
        return self._galleries[distance]

    @cached_property
    def near(self) -> dict[int, Encoded]:
        """Each query picture of a class, averaged over its nearest pictures of the gallery."""
        return {number: self._averaged(pictures) for number, pictures in self.task.singles.items()}

    def _averaged(self, pictures: Encoded) -> Encoded:
        gallery = self.task.gallery
        products = query_vectors(pictures.representation, "degrees") @ self.gallery("degrees").T
        nearest = products.topk(min(NEIGHBOURS, products.shape[1]), dim=1).indices
        probs = gallery.representation.probs[nearest].mean(1)
        return Encoded(gallery.features[nearest].mean(1), type(gallery.representation)(probs, validate=False))

    def operands(self, space: Space, pair: tuple[int, int], most: int | None = None) -> Operands:
        """a, b, ab of a pair in ascending or descending order, the first `most` pictures of each."""
        ascending = (min(pair), max(pair))
        chosen = (self.task.singles[pair[0]], self.task.singles[pair[1]], self.task.pairs[ascending])
        values = [in_space(*encoded, space)[:most] for encoded in (*chosen, self.near[pair[1]])]
        return Operands(*values)

    def rates(self, requests: Iterable[_Request], pair: tuple[int, int]) -> dict[Key, Tensor]:
        """Mean rates `(2, 3)` for each key; the queries of one distance are searched together."""
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
                reversed_mean = found_mean[[1, 0, 2]]  # for (b, a) the labels change places
                rates = result.setdefault(request.key, torch.stack([found_mean, reversed_mean]))
                if request.order is not None:
                    rates[request.order] = (found_mean, reversed_mean)[request.order]
        return result


def _plain_requests(search: _Search, operators: Sequence[Operator], pair: tuple[int, int]) -> Iterator[_Request]:
    """The references: pictures as they are, by each distance that is used."""
    for distance in dict.fromkeys(distance for operator in operators for distance in operator.distances):
        space: Space = "features" if distance == "features" else "representation"
        for order, ordered in enumerate((pair, pair[::-1])):
            x = search.operands(space, ordered)
            yield _Request(Key("a", "", distance), order, query_vectors(x.a, distance))
        yield _Request(Key("ab", "", distance), None, query_vectors(x.ab, distance))


def _requests(
    search: _Search, operator: Operator, pair: tuple[int, int], weight: tuple[float, ...], most: int | None = None
) -> Iterator[_Request]:
    """All combinations of the operator's pictures: the first operand down, the second across.

    The relative negation has a third, a, which goes with b one by one.
    """
    symmetric = operator.query == "a|b"
    for order, ordered in enumerate((pair,) if symmetric else (pair, pair[::-1])):
        x = search.operands(operator.space, ordered, most)
        if operator.query == "ab&~b|a":
            x = _one_by_one(x)
        down = x._replace(a=x.a[:, None]) if symmetric else x._replace(ab=x.ab[:, None])
        value = operator.function(down, *weight)
        for distance in operator.distances:
            vectors = query_vectors(value, distance).flatten(0, 1)
            key = Key(operator.query, operator.name, distance)
            yield _Request(key, None if symmetric else order, vectors)


def _one_by_one(x: Operands) -> Operands:
    """As many pictures of a as of b: classes with few pictures may differ in number."""
    count = min(len(x.a), len(x.b))
    return x._replace(a=x.a[:count], b=x.b[:count], near_b=x.near_b[:count])


def _tuned_weights(search: _Search, operators: Sequence[Operator]) -> dict[Operator, list[float]]:
    """For each pair of classes the weight that is best on the pairs that share no class with it.

    Best is the largest rate of a less that of b, mean over those pairs; with too few classes, over all other pairs.
    """
    pairs = list(search.task.pairs)
    tuned = {}
    for operator in operators:
        margins = torch.empty(len(operator.weights), len(pairs))
        for row, weight in enumerate(operator.weights):
            for column, pair in enumerate(pairs):
                requests = _requests(search, operator, pair, (weight,), _TUNING_PICTURES)
                (rates,) = search.rates(requests, pair).values()
                margins[row, column] = (rates[:, 0] - rates[:, 1]).mean()
        tuned[operator] = [operator.weights[int(margins[:, _others(pairs, p)].mean(1).argmax())] for p in pairs]
    return tuned


def _others(pairs: Sequence[tuple[int, int]], pair: tuple[int, int]) -> list[int]:
    apart = [number for number, other in enumerate(pairs) if not set(other) & set(pair)]
    return apart or [number for number, other in enumerate(pairs) if other != pair] or [0]
