"""Shared by `evaluate` and `reproduce`: options of the retrieval task, and printing of an outcome."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, _ArgumentGroup
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..evaluate.experiments.config import RetrievalConfig, option_name
from .options import default_of

if TYPE_CHECKING:
    from ..evaluate.report.outcome import Outcome

# Fields of `RetrievalConfig`; `{}` is the default.
_NUMBERS: Final = {
    "images_per_class": "query images of each class and pair (the paper: {})",
    "top": "hits that count (the paper: {})",
    "gallery": "gallery images of each class, 0 for all (the paper: {}; sets with one class per image: all)",
    "min_per_class": "images showing only this class that a class needs to take part (the paper: {})",
    "min_per_pair": "images showing exactly both classes that a pair needs to take part (default: {})",
}


def add_retrieval_options(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Add the options of the retrieval task; the defaults are the paper's or those of the scale."""
    for name, meaning in _NUMBERS.items():
        help_text = meaning.format(default_of(RetrievalConfig, name))
        parser.add_argument(option_name(name), dest=name, type=int, metavar="N", help=help_text)


def retrieval_changes(options: Namespace) -> dict[str, int]:
    """Return the options of the retrieval task that were given."""
    return {name: number for name in _NUMBERS if (number := getattr(options, name)) is not None}


def print_outcome(outcome: Outcome, folder: Path, *, as_json: bool) -> None:
    """Print the metrics as JSON, or a summary and the path of the report."""
    from ..evaluate.report.writing import REPORT, to_json_data

    if as_json:
        print(json.dumps(to_json_data(outcome.metrics)))
    else:
        if outcome.verdict:
            print(outcome.verdict)
        print(f"{outcome.summary}\nReport: {folder / REPORT}")
