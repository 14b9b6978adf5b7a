"""Parse specs of images: `SOURCE`, `SOURCE:PATH` or a path, with options `?option=value&…`."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .errors import DataError

_SOURCE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]+)(:|(?=\?)|\Z)")  # at least two letters: C: is a drive
_OPTION: Final = re.compile(r"([a-z_]+)=([^&?]*)")


@dataclass(frozen=True)
class Spec:
    """A source (None: detect it from the path), a path (may be empty), and options as text."""

    source: str | None
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        options = "&".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.source + ':' if self.source else ''}{self.path}{'?' if options else ''}{options}"


def parse_spec(text: str, known: Collection[str]) -> Spec:
    """Parse a spec without reading files; `known` are the names of the sources.

    >>> parse_spec("voc:/data/VOCdevkit?years=2007&difficult=yes", ["voc"])
    Spec(source='voc', path='/data/VOCdevkit', options={'years': '2007', 'difficult': 'yes'})
    >>> parse_spec("photos/2024", ["voc"])
    Spec(source=None, path='photos/2024', options={})
    """
    if not text.strip():
        raise DataError("which images? Give a path, or a source such as digits or scenes")
    match = _SOURCE.match(text)
    source = match[1] if match and (match[1] in known or match[2] == ":") else None
    rest = text[match.end() :] if match and source else text
    path, mark, query = rest.rpartition("?")
    if not mark:
        return Spec(source, rest)
    options: dict[str, str] = {}
    for piece in query.split("&"):
        option = _OPTION.fullmatch(piece)
        if option is None:
            if source is None:
                return Spec(None, rest)  # a file name may contain a question mark
            raise DataError(f'"{piece}" in "{text}" is no option; options look like {source}:…?name=value&name=value')
        if option[1] in options:
            raise DataError(f'"{text}" has the option {option[1]} twice')
        options[option[1]] = option[2]
    return Spec(source, path, options)


def as_number(name: str, value: str) -> int:
    """Parse a non-negative integer."""
    if not (value.isascii() and value.isdigit() and len(value) <= 15):
        raise DataError(f"{name}={value}: expected a whole number, as in {name}=1000")
    return int(value)


def as_yes_no(name: str, value: str) -> bool:
    """Parse `yes` or `no`."""
    if value not in ("yes", "no"):
        raise DataError(f"{name}={value}: expected {name}=yes or {name}=no")
    return value == "yes"


def as_list(name: str, value: str) -> tuple[str, ...]:
    """Parse words separated by `+`."""
    words = tuple(value.split("+"))
    if not all(words) or len(set(words)) < len(words):
        raise DataError(f"{name}={value}: expected different words with + between them, as in {name}=one+two")
    return words


ALIASES: Final = {"valid": "val", "validation": "val", "testing": "test", "training": "train"}


def check_split(split: str | None, splits: Sequence[str], where: object) -> None:
    """Raise a DataError that lists the splits if `split` is not among them."""
    if split is not None and split not in splits:
        there = f"it has {', '.join(splits)}" if splits else "it is not divided; leave the split out"
        raise DataError(f'{where}: no split "{split}", {there}')


def check_folder(path: Path) -> None:
    """Raise a DataError unless the path is a readable folder."""
    if not exists(path):
        raise DataError(f"{path}: no such folder")
    if not path.is_dir():
        raise DataError(f"{path}: a file; expected a folder")
    if not os.access(path, os.R_OK | os.X_OK):
        raise DataError(f"{path}: no permission to look into this folder")


def exists(path: Path) -> bool:
    """Return whether a path exists; False for invalid paths, such as those with a null character."""
    return os.path.exists(path)  # noqa: PTH110
