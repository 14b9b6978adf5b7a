"""The text that says which pictures: `SOURCE`, `SOURCE:PATH`, or a bare path, and `?option=value&…` after it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from .errors import DataError

_SOURCE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]+)(:|(?=\?)|\Z)")  # two letters: C: is a drive
_OPTION: Final = re.compile(r"([a-z_]+)=([^&?]*)")


@dataclass(frozen=True)
class Spec:
    """A source (None: to be recognised by what lies at the path), a path (may be empty), and options as text."""

    source: str | None
    path: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        options = "&".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.source + ':' if self.source else ''}{self.path}{'?' if options else ''}{options}"


def parse_spec(text: str, known: Collection[str]) -> Spec:
    """Reads a spec; `known` are the names of the sources. Looks at no file.

    >>> parse_spec("voc:/data/VOCdevkit?years=2007&difficult=yes", ["voc"])
    Spec(source='voc', path='/data/VOCdevkit', options={'years': '2007', 'difficult': 'yes'})
    >>> parse_spec("photos/2024", ["voc"])
    Spec(source=None, path='photos/2024', options={})
    """
    if not text.strip():
        raise DataError("which pictures? Give a path, or a source such as digits or scenes")
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
                return Spec(None, rest)  # a file name may have a question mark in it
            raise DataError(f'"{piece}" in "{text}" is no option; options look like {source}:…?name=value&name=value')
        if option[1] in options:
            raise DataError(f'"{text}" has the option {option[1]} twice')
        options[option[1]] = option[2]
    return Spec(source, path, options)


def as_number(name: str, value: str) -> int:
    """A whole number from 0."""
    if not (value.isascii() and value.isdigit() and len(value) <= 15):
        raise DataError(f"{name}={value}: expected a whole number, as in {name}=1000")
    return int(value)


def as_yes_no(name: str, value: str) -> bool:
    """`yes` or `no`."""
    if value not in ("yes", "no"):
        raise DataError(f"{name}={value}: expected {name}=yes or {name}=no")
    return value == "yes"


def as_list(name: str, value: str) -> tuple[str, ...]:
    """Words with `+` between them."""
    words = tuple(value.split("+"))
    if not all(words) or len(set(words)) < len(words):
        raise DataError(f"{name}={value}: expected different words with + between them, as in {name}=one+two")
    return words
