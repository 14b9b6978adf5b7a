"""What the names of a query stand for: activations and representations of images, of crops and of words."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..data import BrokenImageError, decode
from ..errors import printable
from ..logic import Crop, Representation
from ..model import Model
from ..words import ShownNoun, describe_images
from ..words.imagenet import noun_vocabulary
from ..words.vocabulary import shortened
from .encoding import to_half
from .errors import QueryError
from .names import Binding, BoundFormula, key_of
from .query_vectors import is_word
from .records import ImageRecord, digest_of
from .table import ImageTable
from .words import GalleryWords

# A word in a term is what so many images share that show it best, and show it at all. See docs/words.md.
_BEST: Final = 10
_SEEN: Final = 0.02


class QueryInputs(NamedTuple):
    """What names stand for: representations, and the activations of images."""

    values: dict[Binding, Representation]
    activations: dict[Binding, Tensor]


class QueryEncoder:
    """Encodes what queries name, in one version of a gallery."""

    def __init__(self, table: ImageTable, model: Model, words: GalleryWords) -> None:
        self._table, self._model, self._words = table, model, words

    def encode(self, queries: Sequence[BoundFormula], given: Mapping[str, Representation]) -> QueryInputs:
        """Return everything that formulas name, each encoded once. `given` are known by their names."""
        things = dict.fromkeys(
            query.named[key_of(atom)]
            for query in queries
            for term in query.formula.terms
            if not is_word(term, query.named)
            for atom in term.atoms
        )
        known = {Binding(name, None): image for name, image in given.items()}
        inputs = self._encode([thing for thing in things if thing not in known])
        return QueryInputs({**known, **inputs.values}, inputs.activations)

    def represent(self, things: Sequence[Binding]) -> Representation:
        """Return representations `(n, N, M)`. A copy of an image of the gallery has that image's."""
        values = self._encode([*dict.fromkeys(things)]).values
        return Representation.stack([values[thing] for thing in things])

    def _encode(self, things: Sequence[Binding]) -> QueryInputs:
        images = [thing for thing in things if thing.kind != "word"]
        values = {thing: self._represent_word(thing) for thing in things if thing.kind == "word"}
        activations = dict(zip(images, self._activations(images), strict=True)) if images else {}
        if images:
            values.update(
                zip(images, self._model.encode_activations(torch.stack([*activations.values()])), strict=True)
            )
        return QueryInputs(values, activations)

    def _activations(self, things: Sequence[Binding]) -> Tensor:
        """Return the activations `(n, width)` of images, and of crops of them."""
        records = [self._record(thing) if thing.crop is None else None for thing in things]
        ids = np.array([record.id for record in records if record is not None], np.int64)
        stored = iter(torch.from_numpy(self._table.activations(ids)).float() if len(ids) else ())
        crops = self._activations_of_crops(things)
        return torch.stack(
            [
                next(stored)
                if record is not None
                else self._activations_of(thing.path)
                if thing.crop is None
                else crops[thing.path, thing.crop]
                for thing, record in zip(things, records, strict=True)
            ]
        )

    def _activations_of_crops(self, things: Sequence[Binding]) -> dict[tuple[str, Crop], Tensor]:
        """Return the activations of the crops among things; each file is decoded once."""
        of_files: dict[str, dict[Crop, None]] = {}
        for thing in things:
            if thing.crop is not None:
                of_files.setdefault(thing.path, {})[thing.crop] = None
        return {
            (path, crop): activations
            for path, crops in of_files.items()
            # By `map`, which frees a crop before the next one is cut.
            for crop, activations in zip(crops, map(self._activations_of, cut_all(path, [*crops])), strict=True)
        }

    def _activations_of(self, image: str | Image.Image) -> Tensor:
        """Return the activations `(width,)` of an image that is not in the gallery.

        Rounded as stored ones are; and alone, because in a batch the last digits depend on the other images.
        """
        return torch.from_numpy(to_half(self._model.activations([image], progress=False))).float()[0]

    def describe(self, thing: Binding) -> list[ShownNoun]:
        """Return what an image shows, in words."""
        words = self._words.vocabulary.of_model
        record = self._record(thing)
        if record is not None and self._words.has_classes:
            noun_vocabulary(self._model, words)  # or why there are none
            return self._words.describe(np.array([record.id]))[0]
        return describe_images(self._model, words, [thing.path])[0]

    def _record(self, thing: Binding) -> ImageRecord | None:
        """Return the image of the gallery that it is, or that has the same content."""
        if thing.id is not None:
            return self._table.get(thing.id)
        return next(iter(self._table.with_digest(digest_of(thing.path))), None)

    def _represent_word(self, word: Binding) -> Representation:
        """Return what a word is in a term: the mean of the images that show it best."""
        assert word.meaning is not None, "a word has a meaning"
        ids, support = self._words.best(word.meaning, _BEST)
        ids = np.sort(ids[support >= _SEEN])
        if not len(ids):
            raise QueryError(
                f'no image of the gallery shows "{shortened(word.meaning.word)}" well enough to take it for an image'
            )
        represented = self._model.encode_activations(torch.from_numpy(self._table.activations(ids)).float())
        return Representation(represented.probs.mean(0), validate=False)


def cut_all(path: str, crops: Sequence[Crop]) -> Iterator[Image.Image]:
    """Yield the crops of the image in a file, which is decoded once, and let go with the last of them.

    Before the first one a QueryError is raised if there is no file, or nothing of the image in one of the crops.
    """
    name = printable(os.path.basename(path))  # noqa: PTH119 - those who ask over the network are told no paths
    if not os.path.isfile(path):  # noqa: PTH113
        raise QueryError(f"{name}{crops[0]} needs the file of the image, which is gone")
    try:
        image = decode(path)
    except BrokenImageError as error:
        raise QueryError(f"{name}{crops[0]} cannot be cut out, because {name} cannot be read: {error.reason}") from None
    for box in [_box(crop, image.size, name) for crop in crops]:
        yield image.crop(box)


def _box(crop: Crop, size: tuple[int, int], name: str) -> tuple[int, int, int, int]:
    """Return the edges of a crop in pixels of an image of that size."""
    width, height = size
    across, down = (1, 1) if crop.in_pixels else (width, height)
    left, right = round(crop.left * across), round(crop.right * across)
    top, bottom = round(crop.top * down), round(crop.bottom * down)
    if right > width or bottom > height:
        raise QueryError(f"{name}{crop} reaches beyond the image, which has {width} x {height} pixels")
    if left >= right or top >= bottom:
        raise QueryError(f"{name}{crop} is less than a pixel of the image, which has {width} x {height}")
    return left, top, right, bottom
