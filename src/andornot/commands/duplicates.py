"""`andornot duplicates`: list exact and near copies."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import printable
from .options import add_gallery, add_json, storage_options

if TYPE_CHECKING:
    from ..gallery.near_duplicates import DuplicateImage

DESCRIPTION: Final = """\
Lists groups of images that are exact copies, or nearly equal: resized, cropped or saved anew, or
shots of a burst. The largest group comes first. Nothing is deleted."""
EXAMPLES: Final = ("andornot duplicates --gallery g/", "andornot duplicates --gallery g/ --csv copies.csv")


def add_options(parser: ArgumentParser) -> None:
    """Add the gallery and the output options."""
    add_gallery(parser)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the list as CSV")
    add_json(parser, "the groups")


def run(options: Namespace) -> None:
    """Print the groups."""
    from ..gallery import Gallery

    groups = Gallery.open(options.gallery, storage_options=storage_options(options)).duplicates()
    if options.csv is not None:
        from ..gallery.exporting import csv_table, escape_cell

        rows = [
            (number, image.copy, image.id, image.size, escape_cell(printable(image.path)))
            for number, group in enumerate(groups, 1)
            for image in group
        ]
        options.csv.write_bytes(csv_table([("group", "copy", "id", "bytes", "path"), *rows]))
    if options.json:
        print(json.dumps({"groups": [[image._asdict() for image in group] for group in groups]}))
    else:
        print("\n".join(_lines(groups)))


def _lines(groups: list[list[DuplicateImage]]) -> Iterator[str]:
    for group in groups:
        yield f"{len(group)} images"
        for image in group:
            note = f"  {image.copy} copy" if image.copy else ""
            yield f"  {printable(image.path)}  #{image.id}{note}"
    exact = sum(image.copy == "exact" for group in groups for image in group)
    near = sum(image.copy == "near" for group in groups for image in group)
    yield f"{len(groups):,} groups, {exact:,} exact copies, {near:,} near copies; nothing was deleted"
