"""The numbers of the paper's retrieval task. Apart from the task, because that loads torch, and `--help` does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from .settings import Settings

_Count = Annotated[int, Field(ge=1, description="it must be 1 or more")]
_AllOr = Annotated[int | None, Field(ge=1, description="it must be 1 or more, or 0 for all pictures")]


class Protocol(Settings):
    """The numbers of the paper; None for a gallery of all pictures."""

    pictures: _Count = 30  # of each of a, b and ab; two operands make pictures² combinations
    top: _Count = 50
    gallery: _AllOr = 200  # pictures of each class, with no other class; sets with one class each use all
    enough: _Count = 200  # pictures with no other class, that a class needs to take part
    fewest: _Count = 5  # pictures with exactly these two classes, that a pair needs to take part
    seed: int = 0

    @classmethod
    def complaint(cls, name: str, right: str, given: object) -> str:
        """As the command line spells it."""
        return f"{option_of(name)} {given}: {right}"


def make_protocol(base: Protocol, changes: Mapping[str, int]) -> Protocol:
    """The protocol with some numbers changed; a gallery of 0 stands for all pictures."""
    numbers: dict[str, int | None] = dict(changes)
    if numbers.get("gallery") == 0:
        numbers["gallery"] = None
    return base.changed(**numbers)


def option_of(number: str) -> str:
    """How a number of the protocol is spelled on the command line, where a gallery is a folder."""
    return "--gallery-pictures" if number == "gallery" else f"--{number}"
