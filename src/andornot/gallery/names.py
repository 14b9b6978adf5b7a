"""Name resolution in formulas.

A name is, in this order: the id of an image in the gallery; a definition; the path or file name of an image in the
gallery; a word; an image file elsewhere. `image:NAME` and `word:NAME` force one kind.
"""

import heapq
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, NamedTuple

from ..concepts.text_space import is_typo
from ..concepts.vocabulary import Meaning, UnknownWordError, WordError, WordNote, shortened
from ..errors import AndornotError
from ..logic import Atom, Crop, Formula, FormulaError
from ..logic.atoms import write_name
from ..logic.plain_text import NameKind, PlainQuery, read_plain_text
from ..logic.program import TERM, WEIGHT
from .definitions import Definitions, replaced
from .errors import GalleryError
from .records import ImageRecord, as_text
from .table import ImageTable
from .words import Vocabulary

_NEAREST: Final = 100
# Number of file names to compare with an unknown name for suggestions.
_SUGGESTED_FROM: Final = 200_000
_SHOWN: Final = 3


class Binding(NamedTuple):
    """What an atom of a formula refers to: an image, a crop of one, or a word.

    An image has the path of its file and its id in the gallery, or None if it is outside the gallery. If an image was
    given without a file, `path` is its name. A word has its meaning.
    """

    path: str
    id: int | None
    kind: Literal["image", "crop", "word"] = "image"
    crop: Crop | None = None
    meaning: Meaning | None = None


@dataclass(frozen=True)
class BoundFormula:
    """A formula, and the binding of each of its atoms in one version of a gallery, by `key_of`.

    Definitions are expanded in parentheses. `asked` is the formula as written, and `called` has the original text of
    each term with a definition. `understood` is the formula that plain text was read as; empty for a strict formula.
    `excluded` are the ids of images to exclude from the hits.
    """

    formula: Formula
    named: dict[str, Binding]
    written: Formula | None = None
    called: dict[str, str] = field(default_factory=dict)
    understood: str = ""
    excluded: frozenset[int] = frozenset()

    @property
    def asked(self) -> Formula:
        """The formula as written."""
        return self.formula if self.written is None else self.written

    @property
    def notes(self) -> tuple[WordNote, ...]:
        """Notes on how unknown words were interpreted."""
        notes = (thing.meaning.note for thing in self.named.values() if thing.meaning is not None)
        return tuple(dict.fromkeys(note for note in notes if note is not None))


class Kept(NamedTuple):
    """A definition as stored, and what its name hides."""

    name: str
    formula: str
    hides: str


def key_of(atom: Atom) -> str:
    """Return the key of an atom in the values of a formula: its name, or its text if it is more than a name."""
    return atom.name if atom.is_plain else str(atom)


def write_image(record: ImageRecord, is_shared: bool, definitions: Definitions) -> str:
    """Return how to write an image in a formula: by its file name if that is unambiguous, else by its id."""
    name = record.name
    is_clear = name.isprintable() and not name.isdigit() and not is_shared and not definitions.called(name)
    return write_name(name) if is_clear else str(record.id)


class Names:
    """Resolves names in one version of a gallery."""

    def __init__(self, table: ImageTable, vocabulary: Vocabulary | None = None) -> None:
        self._table, self._vocabulary = table, vocabulary

    def read(self, text: str, given: Collection[str] | None = None) -> PlainQuery:
        """Parse plain text into a query; strict formulas are kept as they are."""
        return read_plain_text(text, partial(self._kind_of, given=given))

    def _kind_of(self, name: str, given: Collection[str] | None) -> NameKind:
        if self._table.definitions.called(name) and (given is None or name not in given):
            return "definition"
        if " " not in name or _looks_like_file(name):
            images = self.images(name) if given is None else self._without_paths(name)
            if images or (given is not None and name in given):
                return "image"
        words = self._vocabulary
        if words is not None and words.is_ready and not words.takes_any_phrase and words.find(name) is not None:
            return "word"
        return "image" if given is None and _looks_like_file(name) and self._file(name) is not None else ""

    def resolve(self, query: str | Formula, given: Collection[str] | None = None) -> BoundFormula:
        """Bind the names of a formula or of plain text; raise a FormulaError at the first unknown name.

        `given` are names of images outside the gallery. With it, a name is an id, a file name or one of these: paths
        are neither resolved nor shown in errors.
        """
        if isinstance(query, Formula):
            return self._bound(query, given)
        read = self.read(query, given)
        excluded = frozenset(image.id for name in read.excluded for image in self.images(name))
        bound = self._bound(Formula(read.formula), given)
        return replace(bound, understood=str(read) if str(read) != query else "", excluded=excluded)

    def _bound(self, formula: Formula, given: Collection[str] | None) -> BoundFormula:
        named: dict[str, Binding] = {}
        meant: dict[str, Formula] = {}
        for atom in formula.atoms:
            found = self._find(atom, formula, given)
            if isinstance(found, Binding):
                named[key_of(atom)] = found
            else:
                meant[atom.name] = self._defined(found, atom, formula)
                named |= {key_of(own): self._kept(own, found, atom, formula) for own in meant[atom.name].atoms}
        if not meant:
            return BoundFormula(formula, named)
        return BoundFormula(_written_out(formula, meant), named, formula, _called(formula, meant))

    def _find(self, atom: Atom, formula: Formula, given: Collection[str] | None) -> Binding | str:
        """Return the binding of an atom, or the name of the definition it refers to."""
        if atom.kind == "word":
            return self._word(atom, formula)
        name = atom.name
        # Definitions come first, so that a file added later cannot change their meaning.
        if not atom.kind and self._table.definitions.called(name) and (given is None or name not in given):
            found = self._definition_or_word(atom, formula)
            assert found is not None, "there is a definition of that name"
            return found
        images = self.images(name) if given is None else self._without_paths(name)
        if len(images) == 1:
            return _image(images[0].path, images[0].id, atom)
        if images:
            raise self._ambiguous(name, images, formula, with_paths=given is None)
        if given is not None and name in given:
            return _image(name, None, atom)
        if not atom.kind and (found := self._definition_or_word(atom, formula)) is not None:
            return found
        if given is None and (path := self._file(name)) is not None:
            return _image(path, None, atom)
        if not atom.kind and (phrase := self._phrase(atom, formula)) is not None:
            return phrase
        if reason := self._why_broken(name, with_paths=given is None):
            raise formula.error_at(atom, reason)
        raise self._unknown(atom, formula)

    # --- definitions and words --------------------------------------------------------------------------------------

    def readable(self, formula: Formula) -> str:
        """Return the readable formula of a definition: images by file name where that is unambiguous."""
        records = self._table.get_many([int(atom.name) for atom in formula.atoms if atom.kind == "image"])
        shared = self._table.shared_names({record.name for record in records})
        names = {str(one.id): write_image(one, as_text(one.name) in shared, self._table.definitions) for one in records}
        return replaced(
            formula,
            {
                atom: f"{names[atom.name]}{atom.crop or ''}"
                for atom in formula.atoms
                if atom.kind == "image" and atom.name in names
            },
        )

    def define(self, name: str, query: str | Formula) -> Kept:
        """Return a definition as stored; raise a GalleryError or FormulaError if it is not allowed."""
        formula, excluded = (query, ()) if isinstance(query, Formula) else self.read(query)
        if excluded:
            raise GalleryError(f"a definition cannot leave out images: remove except {', '.join(excluded)}")
        formula = Formula(formula) if isinstance(formula, str) else formula
        if self.images(name):
            raise GalleryError(f'"{name}" is an image of the gallery, which comes first: choose another name')
        name = self._table.definitions.called(name) or name
        kept = Formula(replaced(formula, {atom: str(self._lasting(atom, formula)) for atom in formula.atoms}))
        if circle := self._table.definitions.circle(name, kept):
            raise GalleryError(f"these definitions would go in a circle: {' → '.join(circle)}")
        self.resolve(formula)
        self._table.definitions.with_one(name, kept.text).check_users(name)
        return Kept(name, kept.text, self._hidden_by(name))

    def _lasting(self, atom: Atom, formula: Formula) -> Atom:
        """Return an atom that keeps its meaning when files are moved or added."""
        found = self._find(atom, formula, None)
        if isinstance(found, str):
            return Atom(found)
        if found.kind == "word":
            return Atom(atom.name, "word")
        if found.id is None:
            raise formula.error_at(atom, f"{found.path} is not in the gallery: andornot index adds it")
        return Atom(str(found.id), "image", atom.crop)

    def _hidden_by(self, name: str) -> str:
        """Return what a definition with this name would hide; empty if nothing."""
        if self._vocabulary is not None and (meaning := self._vocabulary.find(name)) is not None:
            return f"the word {meaning}; {Atom(name, 'word')} still means it"
        if (path := self._file(name)) is not None:
            return f"the file {path}; {Atom(name, 'image')} still means it"
        return ""

    def _definition_or_word(self, atom: Atom, formula: Formula) -> Binding | str | None:
        found: Binding | str | None = self._table.definitions.called(atom.name)
        words = self._vocabulary
        if found is None and words and words.is_ready and not words.takes_any_phrase:
            meaning = words.find(atom.name)
            found = None if meaning is None else _word(meaning)
        if found is not None and atom.crop is not None:
            what = "a name that was defined" if isinstance(found, str) else "a word"
            raise formula.error_at(atom, f'"{shortened(atom.name)}" is {what}: a crop is of an image')
        return found

    def _phrase(self, atom: Atom, formula: Formula) -> Binding | None:
        """Return a binding to any phrase; None if there are no words, or if it looks like a file or definition."""
        name, words = atom.name, self._vocabulary
        is_other_name = _looks_like_file(name) or any(is_typo(name, known) for known in self._table.definitions)
        if is_other_name or words is None or not words.is_ready:
            return None
        try:
            meaning = words.phrase(name)
        except WordError:
            return None
        if atom.crop is not None:
            raise formula.error_at(atom, f'"{shortened(name)}" is a word: a crop is of an image')
        return _word(meaning)

    def _word(self, atom: Atom, formula: Formula) -> Binding:
        """Return the binding of `word:NAME`."""
        if atom.crop is not None:
            raise formula.error_at(atom, f'"{shortened(atom.name)}" is a word: a crop is of an image')
        try:
            return self._meant(atom.name)
        except WordError as error:
            wrong = formula.error_at(atom, str(error))
            suggestions = error.nearest if isinstance(error, UnknownWordError) else ()
            raise FormulaError(wrong.message, wrong.text, wrong.position, suggestions, code="unknown-word") from None

    def _meant(self, word: str) -> Binding:
        if self._vocabulary is None:
            raise WordError("there are no words here")
        return _word(self._vocabulary.meaning(word) if _looks_like_file(word) else self._vocabulary.phrase(word))

    def _defined(self, name: str, atom: Atom, formula: Formula) -> Formula:
        """Return the expanded formula of a definition."""
        try:
            return self._table.definitions.expanded(name)
        except FormulaError as error:  # e.g. a nested definition has become a condition since
            message = f'"{name}" cannot be written out any more: {error.message}'
        except AndornotError as error:
            message = str(error)
        raise formula.error_at(atom, message)

    def _kept(self, own: Atom, name: str, atom: Atom, formula: Formula) -> Binding:
        """Return the binding of an atom in a definition."""
        if own.kind == "word":
            try:
                return self._meant(own.name)
            except WordError as error:
                raise formula.error_at(atom, f'"{name}" is defined by a word: {error}') from None
        found = self._by_id(own.name)
        if not found:
            raise formula.error_at(
                atom, f'"{name}" is defined by image {own.name}, which is in the gallery no longer: define it anew'
            )
        return _image(found[0].path, found[0].id, own)

    def _unknown(self, atom: Atom, formula: Formula) -> FormulaError:
        """Return the error for an unknown name, with suggestions."""
        error = formula.unknown_name(atom.name, [*self._nearest(atom.name), *self._table.definitions])
        if self._vocabulary is None or atom.kind or _is_id(atom.name):
            return error
        more, words = (
            self._as_word(atom.name) if _looks_like_file(atom.name) else (self._vocabulary.about(atom.name), ())
        )
        suggestions = [*dict.fromkeys((*words, *error.suggestions))]
        return FormulaError(
            _with_more(error.message, more), error.text, error.position, suggestions, code="unknown-name"
        )

    def _as_word(self, file_name: str) -> tuple[str, tuple[str, ...]]:
        """Return a hint if the stem of an unknown file name, as of `dog.jpg`, is a word."""
        stem = os.path.splitext(os.path.basename(file_name))[0]  # noqa: PTH119, PTH122
        words = self._vocabulary
        if words is None or words.takes_any_phrase or words.find(stem) is None:
            return "", ()
        return f'"{stem}" is a word', (stem,)

    # --- images ---------------------------------------------------------------------------------------------------

    def _ambiguous(self, name: str, images: list[ImageRecord], formula: Formula, with_paths: bool) -> FormulaError:
        if with_paths:
            found, right = [image.path for image in images], "more of the path, or the id"
        else:
            found, right = [str(image.id) for image in images], "the id"
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        message = f'"{name}" may be {len(found)} images: {shown}; write {right}'
        return formula.error_at(name, message, "ambiguous-name")

    def images(self, name: str) -> list[ImageRecord]:
        """Return the images that match a name: by id, else by path, else by the last parts of the path."""
        if _is_id(name):
            return self._by_id(name)
        path = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111
        for whole in (path, *(os.path.normpath(os.path.join(folder, name)) for folder in self._table.state.folders)):  # noqa: PTH118
            if found := [image for image in self._called(os.path.basename(whole)) if image.path == whole]:  # noqa: PTH119
                return found
        if name.startswith(("/", "./", "../")):
            return []
        alike = self._called(os.path.basename(name))  # noqa: PTH119
        return [image for image in alike if image.path.endswith(f"{os.sep}{name}")]

    def _file(self, name: str) -> str | None:
        """Return the path of an image file outside the gallery, relative to the current or an indexed folder."""
        places = (os.path.join(folder, name) for folder in self._table.state.folders)  # noqa: PTH118
        for path in (os.path.expanduser(name), *places):  # noqa: PTH111
            if os.path.isfile(path):  # noqa: PTH113
                return os.path.abspath(path)  # noqa: PTH100
        return None

    def _why_broken(self, name: str, with_paths: bool) -> str | None:
        """Return why a file with this name could not be indexed; None if there is no such file."""
        for path, entry in self._table.unreadable.items():
            if name == os.path.basename(path) or (with_paths and _is_end_of(name, path)):  # noqa: PTH119
                return f'"{path if with_paths else name}" cannot be read as an image: {entry.reason}'
        return None

    def _without_paths(self, name: str) -> list[ImageRecord]:
        """Return the images that match a name, by id or file name."""
        return self._by_id(name) if _is_id(name) else self._called(name)

    def _by_id(self, name: str) -> list[ImageRecord]:
        record = self._table.get(int(name))
        return [] if record is None else [record]

    def _called(self, file_name: str) -> list[ImageRecord]:
        return self._table.with_name(file_name)

    def _nearest(self, name: str) -> Iterable[str]:
        """Return similar file names by shared letter pairs; edit distances to a million names would take minutes."""
        wanted = _pieces(name)
        known_names = dict.fromkeys(self._table.some_names(_SUGGESTED_FROM))
        return heapq.nlargest(_NEAREST, known_names, key=lambda known: len(wanted & _pieces(known)))


def _image(path: str, identity: int | None, atom: Atom) -> Binding:
    return Binding(path, identity, "image" if atom.crop is None else "crop", atom.crop)


def _word(meaning: Meaning) -> Binding:
    return Binding("", None, "word", meaning=meaning)


def _written_out(formula: Formula, meant: dict[str, Formula]) -> Formula:
    """Return the formula with definitions expanded; raise a FormulaError for a condition inside a term."""
    conditions = {name for name, one in meant.items() if one.is_condition}
    weighed = {node.args[0] for node in formula.condition if node.op == WEIGHT}
    for place, node in enumerate(formula.condition if conditions else ()):
        term = formula.terms[int(node.value)] if node.op == TERM else None
        if term is None or not (inside := [name for name in term.names if name in conditions]):
            continue
        said = f'"{inside[0]}" is defined as a condition'
        if len(term.program) > 1:
            raise formula.error_at(inside[0], f'{said}, and a term joins images: join it by "and", "or" or "not"')
        if place in weighed:
            raise formula.error_at(inside[0], f"{said}, and a weight is of a term: weigh the terms in its definition")
    try:
        return _replaced(formula, meant)
    except FormulaError as error:
        raise formula.error_at(next(iter(meant)), f"with its definitions written out: {error.message}") from None
    except AndornotError as error:
        raise formula.error_at(next(iter(meant)), str(error)) from None


def _called(formula: Formula, meant: dict[str, Formula]) -> dict[str, str]:
    """Return the original text of each expanded term. The terms of an expanded condition are not included."""
    texts = [str(term) for term in formula.terms if any(name in meant for name in term.names)]
    written_out = {text: _replaced(Formula(text), meant) for text in texts}
    return {str(one): text for text, one in written_out.items() if not one.is_condition}


def _replaced(formula: Formula, meant: dict[str, Formula]) -> Formula:
    return Formula(replaced(formula, {Atom(name): f"({one.text})" for name, one in meant.items()}))


def _with_more(message: str, more: str) -> str:
    """Join two parts of a message; after a question mark, the second part starts a new sentence."""
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
