"""What `evaluate` and `reproduce` share: the numbers of a retrieval, and how an outcome is printed."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, _ArgumentGroup
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..evaluate.experiments.protocol import Protocol, option_of
from .options import default_of

if TYPE_CHECKING:
    from ..evaluate.report.outcome import Outcome

# The numbers of a `Protocol`; `{}` is what it is by default.
_NUMBERS: Final = {
    "pictures": "query pictures of a class or pair (the paper: {})",
    "top": "hits that count (the paper: {})",
    "gallery": "pictures searched of each class, 0 for all (the paper: {}; sets with one class each: all)",
    "enough": "pictures with no other class, that a class needs (the paper: {})",
    "fewest": "pictures with exactly two classes, that a pair needs (default: {})",
}


def add_protocol(parser: ArgumentParser | _ArgumentGroup) -> None:
    """The numbers of a retrieval; without one it is the paper's for `evaluate`, that of the scale for `reproduce`."""
    for name, meaning in _NUMBERS.items():
        help_text = meaning.format(default_of(Protocol, name))
        parser.add_argument(option_of(name), dest=name, type=int, metavar="N", help=help_text)


def protocol_changes(options: Namespace) -> dict[str, int]:
    """The numbers of a retrieval that were given."""
    return {name: number for name in _NUMBERS if (number := getattr(options, name)) is not None}


def print_outcome(outcome: Outcome, folder: Path, *, as_json: bool) -> None:
    """The figures for programs, or a summary and where the report is."""
    from ..evaluate.report.writing import REPORT, plain

    if as_json:
        print(json.dumps(plain(outcome.figures)))
    else:
        if outcome.verdict:
            print(outcome.verdict)
        print(f"{outcome.summary}\nThe report is in {folder / REPORT}")
