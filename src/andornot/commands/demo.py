"""`andornot demo`: an end-to-end demo on bundled data."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from ..errors import require_packages

DESCRIPTION: Final = """\
Shows OR, AND and NOT on numbers, pretrains on real digits, evaluates the operators, draws scenes,
and searches both with formulas: some minutes. With --quick it draws few scenes and searches them by
words and examples, without training. Results that are in the output folder already are reused."""
EXAMPLES: Final = ("andornot demo --quick", "andornot demo -o demo/")


def add_options(parser: ArgumentParser) -> None:
    """Add the output folder and the option for a quick run."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("demo"), help="folder for the results (default: %(default)s/)"
    )
    parser.add_argument("--quick", action="store_true", help="search drawn scenes only: under a minute, no training")


def run(options: Namespace) -> None:
    """Run the demo and print its progress."""
    from .. import demo

    if options.quick:
        demo.run_quick(options.output)
    else:
        require_packages("andornot demo without --quick", "lightning", "matplotlib", "mlxtend")
        demo.run(options.output)
