"""Encoding of queries: representations for names, and vectors for terms.

A single positive term, as in `ab and not b`, is compared with whole images. If there are several, each may match any
region of an image and is expanded by its nearest neighbours; the same holds for negated terms. docs/results.md,
*Conditions*, has the measurements behind these choices.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from ..concepts import Meaning, ShownNoun, describe_images, heads_for
from ..concepts.imagenet import noun_vocabulary
from ..concepts.vocabulary import shortened
from ..data import BrokenImageError, decode
from ..errors import printable
from ..logic import Crop, Formula, FormulaError, Representation
from ..logic.atoms import write_name
from ..model import Model
from ..similarity import Components, expand_query, from_bytes, num_neighbours
from .encoding import to_half
from .errors import GalleryError, QueryError
from .names import Binding, BoundFormula, key_of
from .options import SearchOptions
from .plan import Nearest, Term
from .projections import NamedProjector, RegionBasis
from .records import ImageRecord, StrPath, digest_of
from .rows import NAMED
from .table import ImageTable
from .words import GalleryWords

# A word in a term is the mean of at most this many images that support it best, with at least this support. See
# docs/words.md.
_BEST: Final = 10
_SEEN: Final = 0.02
# Degrees with a smaller relative difference are equal up to rounding.
_ROUNDING: Final = 1e-6
Values = Mapping[Binding, Representation]


Query = BoundFormula | Representation
# A query: a formula, the path or id of an image, or a representation.
QueryLike = StrPath | Formula | BoundFormula | int | np.integer[Any] | Representation


def several_queries(asking: QueryLike | Iterable[QueryLike]) -> Iterable[QueryLike] | None:
    """Return the queries of a list or a batch of representations; None for a single query."""
    if isinstance(asking, Representation):
        return asking if asking.batch_shape else None
    return asking if isinstance(asking, Iterable) and not isinstance(asking, str | bytes) else None


def as_query(asking: object) -> str | Formula | Query:
    """Return the query, with a path or an id as a formula."""
    if isinstance(asking, Formula | BoundFormula | Representation):
        return asking
    if isinstance(asking, os.PathLike):
        return Formula(write_name(os.fspath(asking)))
    if isinstance(asking, str | int | np.integer):
        return str(asking)
    raise GalleryError(f"a query is a formula, a path, an id or a Representation, got {type(asking).__name__}")


# --- names -----------------------------------------------------------------------------------------------------------


class QueryInputs(NamedTuple):
    """The values of names: representations, activations of images, and probabilities `(K,)` of named features."""

    values: dict[Binding, Representation]
    activations: dict[Binding, Tensor]
    named: dict[Binding, Tensor]


class BackboneOutput(NamedTuple):
    """What the backbone gives for images: activations, and probabilities of named features if they are stored."""

    activations: Tensor
    named: Tensor | None

    def row(self, place: int) -> "BackboneOutput":
        """Return the output for one of several images."""
        return BackboneOutput(self.activations[place], None if self.named is None else self.named[place])


class QueryEncoder:
    """Encodes the images and words of queries, in one version of a gallery."""

    def __init__(self, table: ImageTable, model: Model, words: GalleryWords) -> None:
        self._table, self._model, self._words = table, model, words

    def encode(self, queries: Sequence[BoundFormula], given: Mapping[str, Representation]) -> QueryInputs:
        """Encode everything that formulas name, each once. `given` are representations by name."""
        things = dict.fromkeys(
            query.named[key_of(atom)]
            for query in queries
            for term in query.formula.terms
            if not is_word(term, query.named)
            for atom in term.atoms
        )
        known = {Binding(name, None): image for name, image in given.items()}
        inputs = self._encode([thing for thing in things if thing not in known])
        return inputs._replace(values={**known, **inputs.values})

    def represent(self, things: Sequence[Binding]) -> Representation:
        """Return representations `(n, N, M)`. A copy of an image of the gallery gets the stored representation."""
        values = self._encode([*dict.fromkeys(things)]).values
        return Representation.stack([values[thing] for thing in things])

    def _encode(self, things: Sequence[Binding]) -> QueryInputs:
        """Encode distinct images, crops and words."""
        words = [thing for thing in things if thing.kind == "word"]
        images = [thing for thing in things if thing.kind != "word"]
        outputs = self._outputs_of_images(images)
        activations = {image: outputs[image].activations for image in images}
        values = {}
        if images:
            stacked = torch.stack([*activations.values()])
            values = dict(zip(images, self._model.encode_activations(stacked), strict=True))
        for word in words:
            # A word in a term is the mean of the images that support it best.
            best = self._stored_outputs(self._ids_of_word(word))
            represented = self._model.encode_activations(best.activations)
            values[word] = Representation(represented.probs.mean(0), validate=False)
            outputs[word] = BackboneOutput(best.activations.mean(0), None if best.named is None else best.named.mean(0))
        named = {thing: its.named for thing, its in outputs.items() if its.named is not None}
        return QueryInputs(values, activations, named)

    def _outputs_of_images(self, images: Sequence[Binding]) -> dict[Binding, BackboneOutput]:
        """Return the outputs for images and crops; those of images in the gallery are read, not computed."""
        records = {
            image: record for image in images if image.crop is None and (record := self._record(image)) is not None
        }
        found: dict[Binding, BackboneOutput] = {}
        if records:
            stored = self._stored_outputs(np.array([record.id for record in records.values()], np.int64))
            found = {image: stored.row(place) for place, image in enumerate(records)}
        crops_of: dict[str, list[Binding]] = {}
        for image in images:
            if image.crop is not None:
                crops_of.setdefault(image.path, []).append(image)
            elif image not in records:
                found[image] = self._compute_output(image.path)
        for path, crops in crops_of.items():
            cuts = cut_all(path, [image.crop for image in crops if image.crop is not None])
            # `map` frees each crop before the next one is cut.
            found.update(zip(crops, map(self._compute_output, cuts), strict=True))
        return found

    def _stored_outputs(self, ids: np.ndarray) -> BackboneOutput:
        named = torch.from_numpy(self._table.named(ids)) if NAMED in self._table.columns else None
        return BackboneOutput(torch.from_numpy(self._table.activations(ids)).float(), named)

    def _compute_output(self, image: str | Image.Image) -> BackboneOutput:
        """Return the output for an image that is not in the gallery, from one pass of the backbone.

        Activations are rounded like stored ones, and computed one image at a time, because in a batch the last digits
        depend on the other images.
        """
        maps = next(self._model.iter_feature_maps([image], progress=False))
        activations = torch.from_numpy(to_half(self._model.backbone.pool(maps))).float()[0]
        if NAMED not in self._table.columns:
            return BackboneOutput(activations, None)
        heads = heads_for(self._model.backbone.name)
        assert heads is not None, "a gallery with named degrees has a model with named features"
        return BackboneOutput(activations, torch.from_numpy(heads.probabilities(maps.float().cpu().numpy()))[0])

    def describe(self, thing: Binding) -> list[ShownNoun]:
        """Return the words of an image."""
        words = self._words.vocabulary.of_model
        record = self._record(thing)
        if record is not None and self._words.has_classes:
            noun_vocabulary(words)  # raises the error that explains why there are no words
            return self._words.describe(np.array([record.id]))[0]
        return describe_images(words, self._model.iter_feature_maps([thing.path], progress=False))[0]

    def _record(self, thing: Binding) -> ImageRecord | None:
        """Return the record of the image in the gallery, or of one with the same content; else None."""
        if thing.id is not None:
            return self._table.get(thing.id)
        return next(iter(self._table.with_digest(digest_of(thing.path))), None)

    def _ids_of_word(self, word: Binding) -> np.ndarray:
        """Return the ids of the images that support a word best."""
        assert word.meaning is not None, "a word has a meaning"
        ids, support = self._words.best(word.meaning, _BEST)
        ids = np.sort(ids[support >= _SEEN])
        if not len(ids):
            raise QueryError(
                f'no image of the gallery shows "{shortened(word.meaning.word)}" well enough to take it for an image'
            )
        return ids


def cut_all(path: str, crops: Sequence[Crop]) -> Iterator[Image.Image]:
    """Yield crops of the image in a file. It is decoded once, and freed after the last crop.

    Raise a QueryError before the first crop if the file is missing or a crop is empty.
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
    """Return the edges of a crop in pixels, for an image of this size."""
    width, height = size
    across, down = (1, 1) if crop.in_pixels else (width, height)
    left, right = round(crop.left * across), round(crop.right * across)
    top, bottom = round(crop.top * down), round(crop.bottom * down)
    if right > width or bottom > height:
        raise QueryError(f"{name}{crop} reaches beyond the image, which has {width} x {height} pixels")
    if left >= right or top >= bottom:
        raise QueryError(f"{name}{crop} is less than a pixel of the image, which has {width} x {height}")
    return left, top, right, bottom


# --- terms -----------------------------------------------------------------------------------------------------------


class EmptyQueryError(FormulaError):
    """A query that matches all images equally."""

    def __init__(self, text: str, position: int = 0) -> None:
        message = "nothing is left to look for: this has no feature more than any other"
        super().__init__(message, text, position, code="empty-query")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text, self.position)


class RegionInputs(NamedTuple):
    """Inputs for the region vectors of terms: the basis, and the values of names computed with its head.

    `rotation` `(d, r)` maps codes of whole images to codes of regions. It ignores the difference in mean and
    calibration, which is accurate enough for neighbours and avoids running the head for each.
    """

    basis: RegionBasis
    values: Values
    rotation: Tensor


class Neighbours(NamedTuple):
    """Neighbour search in a gallery of a given size: `find` returns the nearest images, `codes` the codes of ids."""

    images: int
    find: Callable[[Tensor, int], Nearest]
    codes: Callable[[np.ndarray], Tensor]


class NamedInputs(NamedTuple):
    """Named features for the vectors of terms: the projector, and the probabilities `(K,)` of names."""

    projector: NamedProjector
    probabilities: Mapping[Binding, Tensor]


class TermVectors:
    """Computes the vectors of terms."""

    def __init__(
        self, components: Components, names: NamedInputs | None, neighbours: Neighbours, options: SearchOptions
    ) -> None:
        self._components, self._names, self._neighbours, self._options = components, names, neighbours, options

    def whole(self, term: Formula, named: Mapping[str, Binding], values: Values) -> Tensor:
        """Return the vector `(d,)` of a term; for several examples in `like(…)`, their mean."""
        vectors = self._components.project(self._degrees(term, named, values))
        if self._names is None:
            return _mean(vectors)
        return _mean(self._names.projector.join(vectors, self._named_degrees(term, named)))

    def _named_degrees(self, term: Formula, named: Mapping[str, Binding]) -> Tensor | None:
        """Return the named degrees `(m, K)` of a term, or of each of its examples, by the term's own operators.

        None if they are not known for all of its names.
        """
        assert self._names is not None, "asked only where named features are stored"
        known = self._names.probabilities
        if any(named[key_of(atom)] not in known for atom in term.atoms):
            return None
        values = {key_of(atom): known[named[key_of(atom)]] for atom in term.atoms}
        pairs = {key: Representation(torch.stack([1 - one, one], -1), validate=False) for key, one in values.items()}
        parts = [{key: pairs[key] for key in map(key_of, part.atoms)} for part in term.examples or (term,)]
        evaluated = [
            evaluate_term(part, of_part, self._options)
            for part, of_part in zip(term.examples or (term,), parts, strict=True)
        ]
        return torch.stack([one.degrees for one in evaluated])

    def terms_of(
        self, query: BoundFormula, values: Values, regions: RegionInputs | None, word_term: Callable[[Meaning], Term]
    ) -> list[Term]:
        """Return the `Term`s of a condition, in order."""
        formula = query.formula
        positive = formula.positive_terms
        terms = [self._term(term, query, values) for term in formula.terms]
        terms = [term if term.word is None else word_term(term.word) for term in terms]
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
        return Term(self.whole(term, query.named, values), own=own, examples=len(term.examples) or 1)

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
        """Return the terms, those numbered in `anywhere` expanded by their neighbours."""
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
        codes = from_bytes(self._neighbours.codes(np.concatenate(nearest)))
        rotated = None if regions is None else normalize(codes[:, : len(regions.rotation)] @ regions.rotation, dim=1)
        result, start = list(terms), 0
        for place, number in enumerate(anywhere):
            term, own = terms[number], slice(start, start + len(nearest[place]))
            start, weights = own.stop, torch.from_numpy(found.scores[place, chosen[place]])
            region = None if rotated is None else _expand_one(term.region, rotated[own], weights)
            result[number] = replace(term, whole=_expand_one(term.whole, codes[own], weights), region=region)
        return result


def _expand_one(query: Tensor | None, neighbours: Tensor, similarities: Tensor) -> Tensor:
    """Return a query `(d,)` expanded by neighbours `(k, d)`."""
    assert query is not None, "a term that is no word has vectors"
    return expand_query(query[None], neighbours[None], similarities[None])[0]


def evaluate_term(term: Formula, values: Mapping[str, Representation], options: SearchOptions) -> Representation:
    """Return the representation of a term, with the semantics and logic of the options."""
    return term.evaluate(values, options.semantics, options.logic or "godel")


def is_word(term: Formula, named: Mapping[str, Binding]) -> bool:
    """Return whether a term is just a word, whose truth it then has."""
    return len(term.program) == 1 and named[key_of(term.atoms[0])].kind == "word"


def refuse_empty(text: str, degrees: Tensor, *, position: int = 0, needs_direction: bool = True) -> None:
    """Raise an EmptyQueryError for a query whose hits would be arbitrary.

    A query without features, such as `a - a`, has the same distance to all images by degrees and containment; by
    cross-entropy, the images with the fewest features are nearest. A query with all features equal has no direction.
    """
    most, least = degrees.amax(-1), degrees.amin(-1)
    differs = most - least if needs_direction else most
    if bool(differs <= _ROUNDING * most):
        raise EmptyQueryError(text, position)


def _mean(directions: Tensor) -> Tensor:
    # Normalizing a unit vector again changes its last digits, and `like(a)` should equal `a`.
    return directions[0] if len(directions) == 1 else normalize(directions.mean(0), dim=0)
