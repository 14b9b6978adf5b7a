"""Galleries that andornot 0.1 wrote: read as they are, and carried over by the first who writes them.

Their state has no checksum, and the checksums of their records are those of what Python's `repr` made of them: it
writes a letter as it is if that Python knows it, and as an escape if it does not. So the same record may have several.
"""

import os
import sqlite3
import unicodedata
import zlib
from itertools import combinations
from typing import Any, Final, NamedTuple

from .records import Broken, Picture, Record, State

_FIELDS: Final = ("model", "model_id", "width", "calibrated_on", "first_file", "rows", "next_id")
# Of so many different letters in a path every choice of escapes is tried.
_MOST_LETTERS: Final = 10


class Written(NamedTuple):
    """`gallery.sqlite` as it would be in today's format. A record that is damaged has None for its checksum."""

    state: State | None
    records: list[Record]
    broken: list[Record]


def holds(connection: sqlite3.Connection) -> bool:
    """Whether it is such a gallery; to be asked of the tables, since any number may be damaged."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name IN ('folders', 'gallery_copy')").fetchall()
    return tables == [("folders",)]


def converted(values: dict[str, Any], folders: list[Record], records: list[Record], broken: list[Record]) -> Written:
    """The rows of the four tables; no state if its values cannot be those of one."""
    today = [_today(record) for record in records]
    state = None
    if _is_state(values):
        sound = [record for record in today if record[-1] is not None]
        next_id = max((values["next_id"], *(record[0] + 1 for record in sound)))
        paths = tuple(os.fsdecode(path) for (path,) in folders if isinstance(path, bytes))
        own = {name: values[name] for name in _FIELDS}
        state = State(**{**own, "next_id": next_id}, pictures=len(records), folders=paths)
    kinds = [bytes, int, int, str]
    return Written(
        state, today, [Broken(os.fsdecode(row[0]), *row[1:]).record for row in broken if [*map(type, row)] == kinds]
    )


def _is_state(values: dict[str, Any]) -> bool:
    kinds = {name: str if name.startswith("model") else int for name in _FIELDS}
    return (
        all(
            type(values.get(name)) is kind or (name == "calibrated_on" and values.get(name, 0) is None)
            for name, kind in kinds.items()
        )
        and min(values["width"], values["first_file"], values["next_id"], values["rows"] + 1) > 0
    )


def _today(record: Record) -> Record:
    try:
        identity, path, *rest, crc = record
        picture = Picture(identity, os.fsdecode(path), *rest)
        is_sound = zlib.crc32(repr(picture).encode()) == crc or crc in _checksums(picture)
        return picture.record if is_sound else (*record[:-1], None)
    except Exception:  # anything may be in the place of anything
        return *record[:-1], None


def _checksums(picture: Picture) -> set[int]:
    """What the checksum may be, by what the Python that wrote it knew."""
    whole, path = repr(picture), repr(picture.path)
    letters = sorted({letter for letter in picture.path if _is_newer(letter)})
    sizes = range(len(letters) + 1) if len(letters) <= _MOST_LETTERS else (0, len(letters))
    spellings = {path}
    for size in sizes:
        for known in combinations(letters, size):
            spelling = path
            for letter in letters:
                escape = letter.encode("unicode_escape").decode()
                spelling = spelling.replace(escape, letter) if letter in known else spelling.replace(letter, escape)
            spellings.add(spelling)
    return {zlib.crc32(whole.replace(path, spelling, 1).encode()) for spelling in spellings}


def _is_newer(letter: str) -> bool:
    """Whether there may be a Python that does not know it; all know what has been there since 2002."""
    is_surrogate = "\ud800" <= letter <= "\udfff"
    return not is_surrogate and not letter.isascii() and unicodedata.ucd_3_2_0.category(letter) == "Cn"
