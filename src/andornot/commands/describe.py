"""`andornot describe`: what a picture shows, in words."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import printable
from .options import add_json

if TYPE_CHECKING:
    from ..words import Shown

DESCRIPTION: Final = """\
Says what pictures show: few nouns, likely ones, and no more special than can be told. Where nothing is
likely, nothing is said. With --gallery a picture may be named as in a search, and the gallery's model looks at it."""
EXAMPLES: Final = ("andornot describe photo.jpg", "andornot describe 17 beach.jpg --gallery g/")


def add_options(parser: ArgumentParser) -> None:
    """Which pictures."""
    parser.add_argument("pictures", metavar="FILE", nargs="+", help="picture files, or pictures of the gallery")
    parser.add_argument("--gallery", type=Path, help="folder of a gallery (default: none, the model of new galleries)")
    add_json(parser, "the words")


def run(options: Namespace) -> None:
    """Describes each picture on a line."""
    described = _described(options.pictures, options.gallery)
    if options.json:
        found = {
            picture: [{"word": noun.word, "probability": noun.probability} for noun in shown]
            for picture, shown in described.items()
        }
        print(json.dumps(found))
        return
    for picture, shown in described.items():
        words = ", ".join(f"{noun.word} ({noun.probability:.2f})" for noun in shown) or "nothing that can be named"
        print(f"{printable(picture)}: {words}" if len(described) > 1 else words)


def _described(pictures: list[str], folder: Path | None) -> dict[str, list[Shown]]:
    from ..gallery.gallery import Gallery, own_model
    from ..ssl import load_recipe
    from ..words import describe_pictures, words_of

    if folder is not None:
        gallery = Gallery.open(folder)
        return {picture: gallery.describe(picture) for picture in pictures}
    model = own_model(load_recipe("photos"))
    return dict(zip(pictures, describe_pictures(model, words_of(model), list(map(Path, pictures))), strict=True))
