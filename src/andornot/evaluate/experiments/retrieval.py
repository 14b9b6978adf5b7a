"""The paper's retrieval task: which pictures are asked for, which are searched, and how often a class is found.

Queries show class a, class b, or both (`ab`). Where every picture has one class, as in MNIST, `ab` is one picture over
the other; else it is a picture with exactly these two classes, as in VOC.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from ...data import ImageSet, Pictures
from ...logic import Representation
from ...model import Model
from ...ssl.synthesis import mix_pictures
from ..errors import EvaluationError
from .protocol import Protocol, option_of


class Mixture(NamedTuple):
    """Pictures that are laid over each other, one by one."""

    first: ImageSet
    second: ImageSet


@dataclass(frozen=True)
class Retrieval:
    """Which pictures take part. Keys are numbers of classes, those of pairs in ascending order."""

    class_names: tuple[str, ...]
    gallery: ImageSet
    singles: dict[int, ImageSet]
    pairs: dict[tuple[int, int], ImageSet | Mixture]

    @property
    def mixed(self) -> bool:
        """Whether `ab` is one picture over another."""
        return any(isinstance(pair, Mixture) for pair in self.pairs.values())

    def counts(self) -> dict[str, object]:
        """How many pictures take part, for a report."""
        sizes = [len(pair.first if isinstance(pair, Mixture) else pair) for pair in self.pairs.values()]
        return {
            "classes": [self.class_names[number] for number in self.singles],
            "ordered pairs of classes": 2 * len(self.pairs),
            "pictures in the gallery": len(self.gallery),
            "query pictures of a class": sorted({len(images) for images in self.singles.values()}),
            "query pictures of a pair": sorted(set(sizes)),
            "ab": "one picture over the other" if self.mixed else "pictures with exactly these two classes",
        }


def choose_pictures(gallery: ImageSet, queries: ImageSet | None, protocol: Protocol) -> Retrieval:
    """Draws the pictures of the task by the protocol's seed; without `queries` they are held out of the gallery."""
    if gallery.labels is None or (queries is not None and queries.labels is None):
        raise EvaluationError(
            "retrieval is measured by labels, and these pictures have none: try digits, scenes or voc:PATH"
        )
    if queries is not None and queries.class_names != gallery.class_names:
        raise EvaluationError("the pictures to search and those to ask with have different classes")
    random = torch.Generator().manual_seed(protocol.seed)
    if bool((gallery.labels.sum(1) == 1).all()):
        return _mixed_task(gallery, queries, protocol, random)
    return _labelled_task(gallery, queries, protocol, random)


def _mixed_task(gallery: ImageSet, queries: ImageSet | None, protocol: Protocol, random: torch.Generator) -> Retrieval:
    """Every picture has one class: `ab` is drawn from all ways to lay a picture of b over one of a."""
    if len(gallery.class_names) < 2:
        raise EvaluationError("all pictures are of one class, and 2 are needed: try digits, scenes or voc:PATH")
    if queries is None:
        order = torch.randperm(len(gallery), generator=random)
        of_class = [_alone(gallery, number, order) for number in range(len(gallery.class_names))]
        # At most half of a class, or there would be none of it to find.
        asked = torch.cat([found[: min(2 * protocol.pictures, len(found) // 2)] for found in of_class])
        queries = gallery.subset(asked)
        gallery = gallery.subset(torch.isin(torch.arange(len(gallery)), asked, invert=True))
    order = torch.randperm(len(queries), generator=random)
    of_class = [_alone(queries, number, order) for number in range(len(queries.class_names))]
    few = {
        queries.class_names[number]: len(found)
        for number, found in enumerate(of_class)
        if len(found) < protocol.pictures
    }
    if few:
        name, count = min(few.items(), key=lambda item: item[1])
        hint = f"take --pictures {count}, or more pictures" if count else "more of them, or none at all"
        raise EvaluationError(
            f'the class "{name}" has {count} pictures to ask with, {protocol.pictures} are needed: {hint}'
        )
    pairs: dict[tuple[int, int], ImageSet | Mixture] = {}
    for a, b in combinations(range(len(of_class)), 2):
        drawn = [torch.randint(len(of_class[n]), (protocol.pictures,), generator=random) for n in (a, b)]
        first, second = (queries.subset(of_class[n][d]) for n, d in zip((a, b), drawn, strict=True))
        pairs[a, b] = Mixture(first, second)
    singles = {number: queries.subset(found[: protocol.pictures]) for number, found in enumerate(of_class)}
    return _checked(Retrieval(queries.class_names, gallery, singles, pairs), protocol)


def _labelled_task(
    gallery: ImageSet, queries: ImageSet | None, protocol: Protocol, random: torch.Generator
) -> Retrieval:
    """Pictures with several classes: the classes with enough pictures of their own, and pairs that occur together."""
    same = queries is None
    queries = gallery if queries is None else queries
    order = torch.randperm(len(gallery), generator=random)
    order_of_queries = order if same else torch.randperm(len(queries), generator=random)
    needed = protocol.enough + protocol.pictures if same else protocol.enough
    alone = {number: _alone(gallery, number, order) for number in range(len(gallery.class_names))}
    large = [number for number, found in alone.items() if len(found) >= needed]
    if len(large) < 2:
        raise EvaluationError(
            f"{len(large)} of {len(alone)} classes have {needed} pictures that show nothing else, 2 are needed: "
            f"{_options_for_two([len(found) for found in alone.values()], protocol, same)}more pictures"
        )
    singles, pairs = {}, {}
    for number in large:
        found = _alone(queries, number, order_of_queries)
        if len(found) < protocol.fewest:
            name, without = queries.class_names[number], f"--enough {len(alone[number]) + 1}, to leave it out"
            raise EvaluationError(
                f'the class "{name}" has {len(found)} pictures to ask with, {protocol.fewest} are needed: '
                f"take {f'--fewest {len(found)}' if len(found) else without}, or more pictures"
            )
        # Out of one set the queries are the last pictures, and the gallery the first.
        singles[number] = found[-protocol.pictures :] if same else found[: protocol.pictures]
    counts, labels = _labels(queries).sum(1), _labels(queries)
    most = 0
    for a, b in combinations(large, 2):
        both = order_of_queries[(labels[:, a] & labels[:, b] & (counts == 2))[order_of_queries]]
        most = max(most, len(both))
        if len(both) >= protocol.fewest:
            pairs[a, b] = both[: protocol.pictures]
    if not pairs:
        raise EvaluationError(
            f"no two classes of these {len(large)} occur together in {protocol.fewest} pictures that show "
            f"nothing else: take {f'--fewest {most}' if most else 'a lower --enough'}, or more pictures"
        )
    per_class = [alone[number][: protocol.gallery] for number in large]
    searched = order if protocol.gallery is None else torch.cat(per_class)
    if same:
        asked = torch.cat([*singles.values(), *pairs.values()])
        searched = searched[torch.isin(searched, asked, invert=True)]
    retrieval = Retrieval(
        queries.class_names,
        gallery.subset(searched.sort().values),
        {number: queries.subset(found) for number, found in singles.items()},
        {pair: queries.subset(found) for pair, found in pairs.items()},
    )
    return _checked(retrieval, protocol)


def _options_for_two(counts: list[int], protocol: Protocol, held_out: bool) -> str:
    """The options by which two classes with so many pictures take part, as a part of a sentence; empty if none do."""
    second = sorted([0, *counts])[-2]
    asked = min(protocol.pictures, second // 2) if held_out else 0
    if second < (2 if held_out else 1):
        return ""
    fewer = f"--pictures {asked} " if held_out and asked < protocol.pictures else ""
    return f"take {fewer}--enough {second - asked} {option_of('gallery')} {second - asked}, or "


def _checked(retrieval: Retrieval, protocol: Protocol) -> Retrieval:
    if len(retrieval.gallery) < protocol.top:
        count = len(retrieval.gallery)
        raise EvaluationError(
            f"the nearest {protocol.top} of {count} pictures are asked for: take --top {count}, or more pictures"
        )
    return retrieval


def _labels(images: ImageSet) -> Tensor:
    assert images.labels is not None
    return images.labels


def _alone(images: ImageSet, number: int, order: Tensor) -> Tensor:
    """The pictures with that class and no other, in that order."""
    labels = _labels(images)
    return order[(labels[:, number] & (labels.sum(1) == 1))[order]]


class Encoded(NamedTuple):
    """Pictures as the model sees them: the backbone's features and the representation."""

    features: Tensor
    representation: Representation


@dataclass(frozen=True)
class EncodedRetrieval:
    """A `Retrieval` for one model. `labels` `(n, classes)` are those of the gallery's readable pictures."""

    gallery: Encoded
    labels: Tensor
    singles: dict[int, Encoded]
    pairs: dict[tuple[int, int], Encoded]

    def represented_by(self, model: Model) -> EncodedRetrieval:
        """The same for another model with the same backbone, without running that again."""

        def again(encoded: Encoded) -> Encoded:
            return Encoded(encoded.features, model.represent(encoded.features))

        singles = {number: again(encoded) for number, encoded in self.singles.items()}
        pairs = {pair: again(encoded) for pair, encoded in self.pairs.items()}
        return EncodedRetrieval(again(self.gallery), self.labels, singles, pairs)


def encode_retrieval(model: Model, retrieval: Retrieval, *, progress: bool | None = None) -> EncodedRetrieval:
    """Everything that the task compares, encoded once."""
    pictures = load(model, retrieval.gallery)
    assert pictures.labels is not None
    return EncodedRetrieval(
        _encode(model, pictures, progress),
        pictures.labels,
        {number: _encode(model, load(model, images), progress) for number, images in retrieval.singles.items()},
        {pair: _encode(model, pixels_of_pair(model, images), progress) for pair, images in retrieval.pairs.items()},
    )


def load(model: Model, images: ImageSet) -> Pictures:
    """The pictures at the size of the model."""
    return images.pictures(model.size, model.recipe.fit)


def pixels_of_pair(model: Model, images: ImageSet | Mixture) -> Pictures | Tensor:
    """Pictures of a pair of classes, those of a mixture as floats from 0 to 1."""
    if not isinstance(images, Mixture):
        return load(model, images)
    first, second = (load(model, part) for part in images)
    count = min(len(first), len(second))  # one of them may have lost a broken picture
    return mix_pictures(first[:count].float() / 255, second[:count].float() / 255)


def _encode(model: Model, pictures: Pictures | Tensor, progress: bool | None) -> Encoded:
    features = model.activations(pictures, progress=progress)
    return Encoded(features, model.represent(features))
