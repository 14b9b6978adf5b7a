"""Which words can be asked for in a gallery: those of its model, if what they need of pictures is kept."""

from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ..model import Model
from ..words import Meaning, NamedClasses, Phrases, UnknownWordError, WordError, words_of
from .definitions import listed


class Vocabulary:
    """The words of a gallery. Nothing is read before a word is asked for."""

    def __init__(self, folder: Path, model: Model, is_kept: bool) -> None:
        """`is_kept`: the classes of its pictures are kept, which nouns need."""
        self._folder, self._model, self._is_kept = folder, model, is_kept

    @cached_property
    def _words(self) -> NamedClasses | Phrases | WordError:
        try:
            return words_of(self._model)
        except WordError as error:
            return error

    @property
    def of_model(self) -> NamedClasses | Phrases:
        """The words of the model, or the WordError that says why it has none."""
        if isinstance(self._words, WordError):
            raise self._words
        return self._words

    @property
    def takes_any_phrase(self) -> bool:
        """Whether a text tower makes a word of any phrase."""
        return isinstance(self._words, Phrases)

    @property
    def is_ready(self) -> bool:
        """Whether words can be asked for."""
        return self.takes_any_phrase or (self._is_kept and isinstance(self._words, NamedClasses))

    @property
    def ready(self) -> NamedClasses | Phrases:
        """The words, or the WordError that says why none can be asked for."""
        words = self.of_model
        if not self.is_ready:
            raise WordError(self._how_to_gain_words)
        return words

    def meaning(self, word: str) -> Meaning:
        """What a word means, or a WordError."""
        meaning = self.of_model.meaning(word)
        return meaning if self.is_ready else self.ready.meaning(word)

    def find(self, word: str) -> Meaning | None:
        """What a word means; None if it is none."""
        with suppress(WordError):
            return self.meaning(word)
        return None

    def nearest(self, word: str) -> tuple[str, ...]:
        """The words near one that means nothing."""
        try:
            self.meaning(word)
        except UnknownWordError as error:
            return error.nearest
        except WordError:
            pass
        return ()

    def about(self, word: str) -> str:
        """What to say to who asks for a name that nothing has."""
        try:
            self.meaning(word)
        except UnknownWordError as error:
            near = error.nearest
            known = f"{'words' if len(near) > 1 else 'a word'} near it: {listed(near)}" if near else "words are nouns"
            return f"{known}; andornot define gives it a meaning of your own"
        except WordError as error:
            return str(error)
        return ""

    @property
    def _how_to_gain_words(self) -> str:
        return (
            f"{self._folder} was indexed before there were words; andornot index --regions --gallery {self._folder} "
            "looks at its pictures again for them"
        )
