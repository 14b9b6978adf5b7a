"""What a name in a formula stands for: a picture of the gallery by id, path or file name, or a file outside of it."""

import heapq
import os
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from ..logic import Formula, FormulaError
from .database import Snapshot

_NEAREST: Final = 100
_SHOWN: Final = 3


class Named(NamedTuple):
    """The file that a name stands for, and its position in the gallery; None for one outside.

    `path` is the name itself for a picture that was given without a file.
    """

    path: str
    position: int | None


@dataclass(frozen=True)
class Resolved:
    """A formula, and what each of its names stands for in one state of a gallery."""

    formula: Formula
    named: dict[str, Named]


class Names:
    """Finds pictures by name in one state of a gallery."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def resolve(self, formula: Formula, given: Collection[str] | None = None) -> Resolved:
        """The formula with what its names stand for, or a FormulaError that points at the one that nobody knows.

        With `given`, names of pictures that are not in the gallery, a name is an id, a file name or one of these: no
        path is looked at, and none is told.
        """
        return Resolved(formula, {name: self._find(name, formula, given) for name in formula.names})

    def _find(self, name: str, formula: Formula, given: Collection[str] | None) -> Named:
        positions = self.positions(name) if given is None else self._without_paths(name)
        if len(positions) == 1:
            return Named(self._snapshot.path(positions[0]), positions[0])
        if positions:
            raise self._ambiguous(name, positions, formula, with_paths=given is None)
        if given is not None and name in given:
            return Named(name, None)
        if given is None and (path := self._file(name)) is not None:
            return Named(path, None)
        if reason := self._why_broken(name, with_paths=given is None):
            raise formula.error_at(name, reason)
        raise formula.unknown_name(name, self._nearest(name))

    def _ambiguous(self, name: str, positions: list[int], formula: Formula, with_paths: bool) -> FormulaError:
        if with_paths:
            found, right = [self._snapshot.path(position) for position in positions], "more of the path, or the id"
        else:
            found, right = [str(self._snapshot.ids[position]) for position in positions], "the id"
        shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        message = f'"{name}" may be {len(found)} pictures: {shown}; write {right}'
        return formula.error_at(name, message)

    def positions(self, name: str) -> list[int]:
        """The pictures that a name may stand for: by id, by path, by the end of a path, whatever fits first."""
        if _is_id(name):
            return self._by_id.get(int(name), [])
        path = os.path.abspath(os.path.expanduser(name))  # noqa: PTH100, PTH111
        for whole in (path, *(os.path.normpath(os.path.join(folder, name)) for folder in self._snapshot.folders)):  # noqa: PTH118
            alike = self._by_file_name.get(os.path.basename(whole), [])  # noqa: PTH119
            if found := [position for position in alike if self._snapshot.path(position) == whole]:
                return found
        if name.startswith(("/", "./", "../")):
            return []
        alike = self._by_file_name.get(os.path.basename(name), [])  # noqa: PTH119
        return [position for position in alike if self._snapshot.path(position).endswith(f"{os.sep}{name}")]

    def _file(self, name: str) -> str | None:
        """The file of that name that is not in the gallery, from here or in one of its folders."""
        places = (os.path.join(folder, name) for folder in self._snapshot.folders)  # noqa: PTH118
        for path in (os.path.expanduser(name), *places):  # noqa: PTH111
            if os.path.isfile(path):  # noqa: PTH113
                return os.path.abspath(path)  # noqa: PTH100
        return None

    def _why_broken(self, name: str, with_paths: bool) -> str | None:
        """What is to be said of a file that `index` found and could not read; None if there is none of that name."""
        for path, entry in self._snapshot.broken.items():
            if name == os.path.basename(path) or (with_paths and _is_end_of(name, path)):  # noqa: PTH119
                return f'"{path if with_paths else name}" cannot be read as a picture: {entry.reason}'
        return None

    def _without_paths(self, name: str) -> list[int]:
        """The pictures that a name may stand for, by id or by file name."""
        return self._by_id.get(int(name), []) if _is_id(name) else self._by_file_name.get(name, [])

    @cached_property
    def _by_id(self) -> dict[int, list[int]]:
        return {identity: [position] for position, identity in enumerate(self._snapshot.ids.tolist())}

    @cached_property
    def _by_file_name(self) -> dict[str, list[int]]:
        positions: dict[str, list[int]] = defaultdict(list)
        for position, path in enumerate(self._snapshot.paths):
            positions[os.path.basename(path)].append(position)  # noqa: PTH119
        return dict(positions)

    def _nearest(self, name: str) -> Iterable[str]:
        """File names that have much in common with a name: a proper comparison with all of a million takes minutes."""
        wanted = _pieces(name)
        return heapq.nlargest(_NEAREST, self._by_file_name, key=lambda known: len(wanted & _pieces(known)))


def _is_end_of(name: str, path: str) -> bool:
    return path == os.path.abspath(name) or path.endswith(f"{os.sep}{os.path.normpath(name)}")  # noqa: PTH100


def _is_id(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 19


def _pieces(name: str) -> set[str]:
    name = name.lower()
    return {name[start : start + 2] for start in range(len(name) - 1)}
