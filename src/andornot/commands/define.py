"""`andornot define`: define a name for a formula."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import Final

from ..errors import AndornotError, printable
from .options import add_gallery, add_json, storage_options

DESCRIPTION: Final = """\
Defines a name for a formula, to be used in other formulas. Its images must be in the gallery.
Without a name it lists all definitions. A definition is also a saved search: search for its name."""
EXAMPLES: Final = (
    "andornot define sunset 'like(s1.jpg, s2.jpg, s3.jpg)' --gallery g/",
    "andornot define walk 'dog and not sofa' --gallery g/",
    "andornot define --gallery g/",
)


def add_options(parser: ArgumentParser) -> None:
    """Add the name, the formula, and the gallery."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the name")
    parser.add_argument(
        "formula", metavar="FORMULA", nargs="?", help="what it stands for, such as 'like(a.jpg, b.jpg)'"
    )
    add_gallery(parser)
    parser.add_argument("--remove", metavar="NAME", help="remove a definition")
    parser.add_argument("--rename", metavar=("NAME", "NEW"), nargs=2, help="give a definition another name")
    add_json(parser, "the definitions")


def run(options: Namespace) -> None:
    """Define a name, remove or rename one, or list all."""
    from ..gallery import Gallery

    asked = [options.name is not None, options.remove is not None, options.rename is not None]
    if (options.name is None) != (options.formula is None) or sum(asked) > 1:
        raise AndornotError("andornot define takes NAME and FORMULA, --remove NAME, --rename NAME NEW, or none to list")
    gallery = Gallery.open(options.gallery, storage_options=storage_options(options))
    hides = ""
    if options.name is not None:
        defined = gallery.define(options.name, options.formula)
        hides = defined.hides
        shown = {defined.name: defined.formula}
    elif options.remove is not None:
        gallery.undefine(options.remove)
        shown = {}
    else:
        if options.rename is not None:
            gallery.rename_definition(*options.rename)
        shown = gallery.definitions
    if options.json:
        print(json.dumps({"definitions": gallery.definitions, "hides": hides}))
        return
    for name, formula in shown.items():
        print(f"{printable(name)} = {printable(formula)}")
    if hides:
        print(f"this hides {printable(hides)}")
    if options.remove is not None:
        print(f"{printable(options.remove)} removed")
    elif not shown:
        print("no definitions")
