"""`andornot describe`: tag an image."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import printable
from .options import add_gallery, add_json, storage_options

if TYPE_CHECKING:
    from ..concepts import ShownNoun

DESCRIPTION: Final = """\
Prints nouns for what images show, as specific as is certain. With --gallery, images may be named as
in a search, and the model of the gallery is used."""
EXAMPLES: Final = ("andornot describe photo.jpg", "andornot describe 17 beach.jpg --gallery g/")


def add_options(parser: ArgumentParser) -> None:
    """Add the images and the gallery."""
    parser.add_argument("images", metavar="FILE", nargs="+", help="image files, or images of the gallery")
    add_gallery(parser, required=False, also=" (default: none, the model of new galleries)")
    add_json(parser, "the words")


def run(options: Namespace) -> None:
    """Print the words of each image on a line."""
    described = _described(options.images, options.gallery, storage_options(options))
    if options.json:
        found = {
            image: [{"word": noun.word, "probability": noun.probability} for noun in shown]
            for image, shown in described.items()
        }
        print(json.dumps(found))
        return
    for image, shown in described.items():
        words = ", ".join(f"{noun.word} ({noun.probability:.2f})" for noun in shown) or "no known thing"
        print(f"{printable(image)}: {words}" if len(described) > 1 else words)


def _described(images: list[str], address: str | None, storage: dict[str, str]) -> dict[str, list[ShownNoun]]:
    from ..concepts import describe_images, vocabulary_for
    from ..gallery.gallery import Gallery
    from ..gallery.writing import own_model
    from ..ssl import load_recipe

    if address is not None:
        gallery = Gallery.open(address, storage_options=storage)
        return {image: gallery.describe(image) for image in images}
    model = own_model(load_recipe("photos"))
    maps = model.iter_feature_maps(list(map(Path, images)), progress=False)
    return dict(zip(images, describe_images(vocabulary_for(model.backbone), maps), strict=True))
