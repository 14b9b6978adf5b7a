"""`andornot demo`: the main job on embedded data."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

DESCRIPTION: Final = """\
Works an example of OR, AND and NOT, pretrains on real digits, measures the operators on them, draws
scenes, and searches both with formulas. Pictures and reports go to the output folder. What is there
already is used again."""
EXAMPLES: Final = ("andornot demo -o demo/",)


def add_options(parser: ArgumentParser) -> None:
    """Where the results go."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("demo"), help="folder for the results (default: %(default)s/)"
    )


def run(options: Namespace) -> None:
    """Shows it all, and prints as it goes."""
    from .. import demo

    demo.run(options.output)
