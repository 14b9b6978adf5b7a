"""`andornot demo`: an end-to-end demo on bundled data."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

DESCRIPTION: Final = """\
Shows OR, AND and NOT on numbers, pretrains on real digits, evaluates the operators, draws scenes,
and searches both with formulas. Results that are in the output folder already are reused."""
EXAMPLES: Final = ("andornot demo -o demo/",)


def add_options(parser: ArgumentParser) -> None:
    """Add the output folder."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("demo"), help="folder for the results (default: %(default)s/)"
    )


def run(options: Namespace) -> None:
    """Run the demo and print its progress."""
    from .. import demo

    demo.run(options.output)
