"""What names stand for: features and representations of pictures, of crops and of words."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..logic import Representation
from ..words import Shown, describe_pictures
from ..words.errors import shortened
from ..words.looking import nouns_of
from .asking import is_word
from .cropping import cut
from .digests import digest_of
from .errors import QueryError
from .names import Named, Resolved, key_of
from .records import Picture, Records, entry_of
from .vectors import Sources
from .vocabulary import Vocabulary
from .word_truths import WordTruths

# A word in a term is what so many pictures share that show it best, and show it at all. See docs/words.md.
_BEST: Final = 10
_SEEN: Final = 0.02


class Looked(NamedTuple):
    """What names stand for: representations, and the activations of those whose files or features are here."""

    values: dict[Named, Representation]
    activations: dict[Named, Tensor]


class Looker:
    """Looks at what is named, in one state of a gallery."""

    def __init__(self, sources: Sources, vocabulary: Vocabulary, words: WordTruths) -> None:
        self._sources, self._vocabulary, self._words = sources, vocabulary, words
        self._records: Records = sources.snapshot

    def look(self, queries: Sequence[Resolved], pictures: Mapping[str, Representation]) -> Looked:
        """All that formulas name; what several of them name is looked at once. `pictures` are known by their names."""
        things = dict.fromkeys(
            query.named[key_of(atom)]
            for query in queries
            for term in query.formula.terms
            if not is_word(term, query.named)
            for atom in term.atoms
        )
        given = {Named(name, None): picture for name, picture in pictures.items()}
        looked = self._look_at([thing for thing in things if thing not in given])
        return Looked({**given, **looked.values}, looked.activations)

    def represent(self, things: Sequence[Named]) -> Representation:
        """Pictures outside are encoded, but for copies of what is in the gallery: the same picture, the same answer."""
        values = self._look_at([*dict.fromkeys(things)]).values
        return Representation.stack([values[thing] for thing in things])

    def _look_at(self, things: Sequence[Named]) -> Looked:
        """What different things stand for."""
        seen = [thing for thing in things if thing.kind != "word"]
        values = {thing: self._represent_word(thing) for thing in things if thing.kind == "word"}
        activations = dict(zip(seen, self.activations(seen), strict=True)) if seen else {}
        if seen:
            values.update(zip(seen, self._sources.model.represent(torch.stack([*activations.values()])), strict=True))
        return Looked(values, activations)

    def activations(self, things: Sequence[Named]) -> Tensor:
        """What the backbone sees in pictures, and in crops of them, `(n, width)`."""
        known = [self._known(thing) if thing.crop is None else None for thing in things]
        rows = np.array([picture.row for picture in known if picture is not None], np.int64)
        inside = iter(self._sources.activations(rows) if len(rows) else ())
        return torch.stack(
            [
                next(inside)
                if picture is not None
                else self._sources.look_at(thing.path if thing.crop is None else cut(thing.path, thing.crop))
                for thing, picture in zip(things, known, strict=True)
            ]
        )

    def describe(self, thing: Named) -> list[Shown]:
        """What a picture shows, in words."""
        model, words = self._sources.model, self._vocabulary.of_model
        picture = self._known(thing)
        kept = None if picture is None else self._words.kept(picture.row)
        if kept is not None:
            return nouns_of(model, words).describe(kept)
        return describe_pictures(model, words, [thing.path])[0]

    def tags(self, identity: int) -> list[Shown]:
        """What a picture of the gallery shows, by what is kept of it."""
        return self._words.describe(np.array([entry_of(self._records, identity).picture.row]))[0]

    def _known(self, thing: Named) -> Picture | None:
        """The picture of the gallery that it is, or that has the same content."""
        if thing.id is not None:
            return entry_of(self._records, thing.id).picture
        return next((entry.picture for entry in self._records.with_digest(digest_of(thing.path))), None)

    def _represent_word(self, word: Named) -> Representation:
        """What a word is in a term: the mean of the pictures that show it best."""
        assert word.meaning is not None, "a word has a meaning"
        rows = self._words.best_rows(word.meaning, _BEST)
        rows = np.sort(rows[self._words.support(word.meaning, rows).numpy() >= _SEEN])
        if not len(rows):
            raise QueryError(
                f'no picture of the gallery shows "{shortened(word.meaning.word)}" well enough to take it for a picture'
            )
        return Representation(self._sources.represent(rows).probs.mean(0), validate=False)
