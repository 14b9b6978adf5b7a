"""What a name in a formula stands for.

In this order: a picture of the gallery by id, path or file name; a name that was defined; a word; a picture file
elsewhere. `picture:NAME` and `word:NAME` insist.
"""

import heapq
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ..errors import AndornotError
from ..logic import Atom, Crop, Formula, FormulaError
from ..logic.program import TERM, WEIGHT
from ..words.errors import WordError, shortened
from ..words.meaning import Meaning
from .definitions import Definitions, replaced
from .errors import GalleryError
from .records import Picture, Records
from .vocabulary import Vocabulary

_NEAREST: Final = 100
_SHOWN: Final = 3
_NO_DEFINITIONS: Final = Definitions({})


class Named(NamedTuple):
    """What an atom of a formula stands for: a picture, a crop of one, or a word.

    A picture has the path of its file, and its id in the gallery; None for one outside. `path` is the name itself for
    a picture that was given without a file. A word has its meaning.
    """

    path: str
    id: int | None
    kind: Literal["picture", "crop", "word"] = "picture"
    crop: Crop | None = None
    meaning: Meaning | None = None


@dataclass(frozen=True)
class Resolved:
    """A formula, and what each of its atoms stands for in one state of a gallery, by `key_of`.

    Names that were defined stand in it by their formulas, in brackets. `asked` is the formula as it was written, and
    `called` has for each term with such a name how that was written.
    """

    formula: Formula
    named: dict[str, Named]
    written: Formula | None = None
    called: dict[str, str] = field(default_factory=dict)

    @property
    def asked(self) -> Formula:
        """The formula as it was written."""
        return self.formula if self.written is None else self.written


class Kept(NamedTuple):
    """A definition as it is kept, and what its name hides."""

    name: str
    formula: str
    hides: str


def key_of(atom: Atom) -> str:
    """What an atom is called among the values of a formula: its name, or all of it where it is more than a name."""
    return atom.name if atom.is_plain else str(atom)


class Names:
    """Finds what names stand for in one state of a gallery."""

    def __init__(
        self, records: Records, definitions: Definitions = _NO_DEFINITIONS, vocabulary: Vocabulary | None = None
    ) -> None:
        self._records, self._definitions, self._vocabulary = records, definitions, vocabulary

    def resolve(self, formula: Formula, given: Collection[str] | None = None) -> Resolved:
        """The formula with what its names stand for, or a FormulaError that points at the one that nobody knows.

        With `given`, names of pictures that are not in the gallery, a name is an id, a file name or one of these: no
        path is looked at, and none is told.
        """
        named: dict[str, Named] = {}
        meant: dict[str, Formula] = {}
        for atom in formula.atoms:
            found = self._find(atom, formula, given)
            if isinstance(found, Named):
                named[key_of(atom)] = found
            else:
                meant[atom.name] = self._defined(found, atom, formula)
                named |= {key_of(own): self._kept(own, found, atom, formula) for own in meant[atom.name].atoms}
        if not meant:
            return Resolved(formula, named)
        return Resolved(_written_out(formula, meant), named, formula, _called(formula, meant))

    def _find(self, atom: Atom, formula: Formula, given: Collection[str] | None) -> Named | str:
        """What an atom stands for; the name of a definition, if it is that."""
        if atom.kind == "word":
            return self._word(atom, formula)
        name = atom.name
        pictures = self.pictures(name) if given is None else self._without_paths(name)
        if len(pictures) == 1:
            return _picture(pictures[0].path, pictures[0].id, atom)
        if pictures:
            raise self._ambiguous(name, pictures, formula, with_paths=given is None)
        if given is not None and name in given:
            return _picture(name, None, atom)
        if not atom.kind and (found := self._definition_or_word(atom, formula)) is not None:
            return found
        if given is None and (path := self._file(name)) is not None:
            return _picture(path, None, atom)
        if not atom.kind and (phrase := self._phrase(name)) is not None:
            return phrase
        if reason := self._why_broken(name, with_paths=given is None):
            raise formula.error_at(atom, reason)
        raise self._unknown(atom, formula)

    # --- definitions and words --------------------------------------------------------------------------------------

    def define(self, name: str, formula: Formula) -> Kept:
        """A formula as it is kept under a name, or a GalleryError or FormulaError that says why it cannot be."""
        if self.pictures(name):
            raise GalleryError(f'"{name}" is a picture of the gallery, which comes first: choose another name')
        name = self._definitions.called(name) or name
        kept = Formula(replaced(formula, {atom: str(self._lasting(atom, formula)) for atom in formula.atoms}))
        if circle := self._definitions.circle(name, kept):
            raise GalleryError(f"these definitions would go in a circle: {' → '.join(circle)}")
        self.resolve(formula)
        return Kept(name, kept.text, self._hidden_by(name))

    def _lasting(self, atom: Atom, formula: Formula) -> Atom:
        """An atom that means the same for ever."""
        found = self._find(atom, formula, None)
        if isinstance(found, str):
            return Atom(found)
        if found.kind == "word":
            return Atom(atom.name, "word")
        if found.id is None:
            raise formula.error_at(atom, f"{found.path} is not in the gallery: andornot index adds it")
        return Atom(str(found.id), "picture", atom.crop)

    def _hidden_by(self, name: str) -> str:
        """What is called so as well, and is found no longer once the name is defined."""
        if self._vocabulary is not None and (meaning := self._vocabulary.find(name)) is not None:
            return f"the word {meaning}; {Atom(name, 'word')} still means it"
        if (path := self._file(name)) is not None:
            return f"the file {path}; {Atom(name, 'picture')} still means it"
        return ""

    def _definition_or_word(self, atom: Atom, formula: Formula) -> Named | str | None:
        found: Named | str | None = self._definitions.called(atom.name)
        words = self._vocabulary
        if found is None and words and words.is_ready and not words.takes_any_phrase:
            meaning = words.find(atom.name)
            found = None if meaning is None else _word(meaning)
        if found is not None and atom.crop is not None:
            what = "a name that was defined" if isinstance(found, str) else "a word"
            raise formula.error_at(atom, f'"{shortened(atom.name)}" is {what}: a crop is of a picture')
        return found

    def _phrase(self, name: str) -> Named | None:
        """A name as a phrase, where any is a word: then files come first, and what looks like one is none."""
        if _looks_like_file(name) or not (self._vocabulary and self._vocabulary.takes_any_phrase):
            return None
        meaning = self._vocabulary.find(name)
        return None if meaning is None else _word(meaning)

    def _word(self, atom: Atom, formula: Formula) -> Named:
        """What a formula insists on as a word."""
        if atom.crop is not None:
            raise formula.error_at(atom, f'"{shortened(atom.name)}" is a word: a crop is of a picture')
        try:
            return self._meant(atom.name)
        except WordError as error:
            wrong = formula.error_at(atom, str(error))
            raise FormulaError(wrong.message, wrong.text, wrong.position, self._near_words(atom.name)) from None

    def _near_words(self, word: str) -> tuple[str, ...]:
        return () if self._vocabulary is None else self._vocabulary.nearest(word)

    def _meant(self, word: str) -> Named:
        if self._vocabulary is None:
            raise WordError("there are no words here: a search of the gallery in its folder knows them")
        return _word(self._vocabulary.meaning(word))

    def _defined(self, name: str, atom: Atom, formula: Formula) -> Formula:
        """What a definition says, all written out."""
        try:
            return self._definitions.expanded(name)
        except FormulaError as error:  # as when a definition in it has become a condition since
            message = f'"{name}" cannot be written out any more: {error.message}'
        except AndornotError as error:
            message = str(error)
        raise formula.error_at(atom, message)

    def _kept(self, own: Atom, name: str, atom: Atom, formula: Formula) -> Named:
        """What an atom of a definition stands for."""
        if own.kind == "word":
            try:
                return self._meant(own.name)
            except WordError as error:
                raise formula.error_at(atom, f'"{name}" is defined by a word: {error}') from None
        found = self._by_id(own.name)
        if not found:
            raise formula.error_at(
                atom, f'"{name}" is defined by picture {own.name}, which is in the gallery no longer: define it anew'
            )
        return _picture(found[0].path, found[0].id, own)

    def _unknown(self, atom: Atom, formula: Formula) -> FormulaError:
        """The error for a name that stands for nothing, with the nearest of all kinds."""
        error = formula.unknown_name(atom.name, [*self._nearest(atom.name), *self._definitions])
        if self._vocabulary is None or atom.kind or _is_id(atom.name):
            return error
        if _looks_like_file(atom.name):
            more, words = self._as_word(atom.name)
        else:
            more, words = self._vocabulary.about(atom.name), self._near_words(atom.name)
        nearest = dict.fromkeys((*words, *error.nearest))
        return FormulaError(_with_more(error.message, more), error.text, error.position, [*nearest])

    def _as_word(self, file_name: str) -> tuple[str, tuple[str, ...]]:
        """What to say of `dog.jpg` where there is none, and dogs can be asked for by the word."""
        stem = os.path.splitext(os.path.basename(file_name))[0]  # noqa: PTH119, PTH122
        words = self._vocabulary
        if words is None or words.takes_any_phrase or words.find(stem) is None:
            return "", ()
        return f'"{stem}" is a word', (stem,)

    # --- pictures ---------------------------------------------------------------------------------------------------

    def _ambiguous(self, name: str, pictures: list[Picture], formula: Formula, with_paths: bool) -> FormulaError:
        if with_paths:
            found, right = [picture.path for picture in pictures], "more of the path, or the id"
        else:
            found, right = [str(picture.id) for picture in pictures], "the id"
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        message = f'"{name}" may be {len(found)} pictures: {shown}; write {right}'
        return formula.error_at(name, message)

    def pictures(self, name: str) -> list[Picture]:
        """The pictures that a name may stand for: by id, by path, by the end of a path, whatever fits first."""
        if _is_id(name):
            return self._by_id(name)
        path = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111
        for whole in (path, *(os.path.normpath(os.path.join(folder, name)) for folder in self._records.folders)):  # noqa: PTH118
            if found := [picture for picture in self._called(os.path.basename(whole)) if picture.path == whole]:  # noqa: PTH119
                return found
        if name.startswith(("/", "./", "../")):
            return []
        alike = self._called(os.path.basename(name))  # noqa: PTH119
        return [picture for picture in alike if picture.path.endswith(f"{os.sep}{name}")]

    def _file(self, name: str) -> str | None:
        """The file of that name that is not in the gallery, from here or in one of its folders."""
        places = (os.path.join(folder, name) for folder in self._records.folders)  # noqa: PTH118
        for path in (os.path.expanduser(name), *places):  # noqa: PTH111
            if os.path.isfile(path):  # noqa: PTH113
                return os.path.abspath(path)  # noqa: PTH100
        return None

    def _why_broken(self, name: str, with_paths: bool) -> str | None:
        """What is to be said of a file that `index` found and could not read; None if there is none of that name."""
        for path, entry in self._records.broken.items():
            if name == os.path.basename(path) or (with_paths and _is_end_of(name, path)):  # noqa: PTH119
                return f'"{path if with_paths else name}" cannot be read as a picture: {entry.reason}'
        return None

    def _without_paths(self, name: str) -> list[Picture]:
        """The pictures that a name may stand for, by id or by file name."""
        return self._by_id(name) if _is_id(name) else list(self._called(name))

    def _by_id(self, name: str) -> list[Picture]:
        entry = self._records.entry(int(name))
        return [] if entry is None else [entry.picture]

    def _called(self, file_name: str) -> Iterable[Picture]:
        return (entry.picture for entry in self._records.called(file_name))

    def _nearest(self, name: str) -> Iterable[str]:
        """File names that have much in common with a name: a proper comparison with all of a million takes minutes."""
        wanted = _pieces(name)
        known_names = dict.fromkeys(self._records.some_names())
        return heapq.nlargest(_NEAREST, known_names, key=lambda known: len(wanted & _pieces(known)))


def _picture(path: str, identity: int | None, atom: Atom) -> Named:
    return Named(path, identity, "picture" if atom.crop is None else "crop", atom.crop)


def _word(meaning: Meaning) -> Named:
    return Named("", None, "word", meaning=meaning)


def _written_out(formula: Formula, meant: dict[str, Formula]) -> Formula:
    """The formula with what was meant in the place of defined names. A condition cannot stand in a term."""
    conditions = {name for name, one in meant.items() if one.is_condition}
    weighed = {node.args[0] for node in formula.condition if node.op == WEIGHT}
    for place, node in enumerate(formula.condition if conditions else ()):
        term = formula.terms[int(node.value)] if node.op == TERM else None
        if term is None or not (inside := [name for name in term.names if name in conditions]):
            continue
        said = f'"{inside[0]}" is defined as a condition'
        if len(term.program) > 1:
            raise formula.error_at(inside[0], f'{said}, and a term joins pictures: join it by "and", "or" or "not"')
        if place in weighed:
            raise formula.error_at(inside[0], f"{said}, and a weight is of a term: weigh the terms in its definition")
    try:
        return _replaced(formula, meant)
    except FormulaError as error:
        raise formula.error_at(next(iter(meant)), f"with its definitions written out: {error.message}") from None
    except AndornotError as error:
        raise formula.error_at(next(iter(meant)), str(error)) from None


def _called(formula: Formula, meant: dict[str, Formula]) -> dict[str, str]:
    """For each term with a defined name, written out, how it was written. What a condition is made of has no name."""
    texts = [str(term) for term in formula.terms if any(name in meant for name in term.names)]
    written_out = {text: _replaced(Formula(text), meant) for text in texts}
    return {str(one): text for text, one in written_out.items() if not one.is_condition}


def _replaced(formula: Formula, meant: dict[str, Formula]) -> Formula:
    return Formula(replaced(formula, {Atom(name): f"({one.text})" for name, one in meant.items()}))


def _with_more(message: str, more: str) -> str:
    """Both, as one line; behind a question a sentence begins."""
    if not more:
        return message
    return f"{message} {more[0].upper()}{more[1:]}" if message.endswith("?") else f"{message}; {more}"


def _is_end_of(name: str, path: str) -> bool:
    return path == os.path.abspath(name) or path.endswith(f"{os.sep}{os.path.normpath(name)}")  # noqa: PTH100


def _looks_like_file(name: str) -> bool:
    return os.sep in name or bool(os.path.splitext(name)[1]) or _is_id(name)  # noqa: PTH122


def _is_id(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 19


def _pieces(name: str) -> set[str]:
    name = name.lower()
    return {name[start : start + 2] for start in range(len(name) - 1)}
