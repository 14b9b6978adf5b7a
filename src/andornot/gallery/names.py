"""What a name in a formula stands for: a picture of the gallery by id, path or file name, or a file outside of it."""

import heapq
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..logic import Atom, Crop, Formula, FormulaError
from .records import Picture, Records

_NEAREST: Final = 100
_SHOWN: Final = 3


class Named(NamedTuple):
    """The file that a name stands for, and its id in the gallery; None for one outside.

    `path` is the name itself for a picture that was given without a file. `kind` is "picture", "crop" or "word".
    """

    path: str
    id: int | None
    kind: str = "picture"
    crop: Crop | None = None
    meaning: Any = None


@dataclass(frozen=True)
class Resolved:
    """A formula, and what each of its names stands for in one state of a gallery."""

    formula: Formula
    named: dict[str, Named]


def key_of(atom: Atom) -> str:
    """What an atom is called where values of atoms are given by name."""
    return atom.name if atom.is_plain else str(atom)


class Names:
    """Finds pictures by name in one state of a gallery."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def resolve(self, formula: Formula, given: Collection[str] | None = None) -> Resolved:
        """The formula with what its names stand for, or a FormulaError that points at the one that nobody knows.

        With `given`, names of pictures that are not in the gallery, a name is an id, a file name or one of these: no
        path is looked at, and none is told.
        """
        return Resolved(formula, {key_of(atom): self._stands_for(atom, formula, given) for atom in formula.atoms})

    def _stands_for(self, atom: Atom, formula: Formula, given: Collection[str] | None) -> Named:
        found = self._find(atom.name, formula, given)
        return found if atom.crop is None else found._replace(kind="crop", crop=atom.crop)

    def _find(self, name: str, formula: Formula, given: Collection[str] | None) -> Named:
        pictures = self.pictures(name) if given is None else self._without_paths(name)
        if len(pictures) == 1:
            return Named(pictures[0].path, pictures[0].id)
        if pictures:
            raise self._ambiguous(name, pictures, formula, with_paths=given is None)
        if given is not None and name in given:
            return Named(name, None)
        if given is None and (path := self._file(name)) is not None:
            return Named(path, None)
        if reason := self._why_broken(name, with_paths=given is None):
            raise formula.error_at(name, reason)
        raise formula.unknown_name(name, self._nearest(name))

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


def _is_end_of(name: str, path: str) -> bool:
    return path == os.path.abspath(name) or path.endswith(f"{os.sep}{os.path.normpath(name)}")  # noqa: PTH100


def _is_id(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 19


def _pieces(name: str) -> set[str]:
    name = name.lower()
    return {name[start : start + 2] for start in range(len(name) - 1)}
