"""`andornot define`: define a name for a formula."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import Final

from ..errors import AndornotError, printable
from .options import add_gallery, add_json, storage_options

DESCRIPTION: Final = """\
Defines a name for a formula, to be used in other formulas. Its images must be in the gallery.
Without a name it lists all definitions."""
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
    add_json(parser, "the definitions")


def run(options: Namespace) -> None:
    """Define a name, remove one, or list all."""
    from ..gallery import Gallery

    if (options.name is None) != (options.formula is None) or (options.remove is not None and options.name is not None):
        raise AndornotError("andornot define takes NAME and FORMULA, or --remove NAME, or neither to list all")
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
