"""`andornot …`: parses, calls, prints. A user's mistake is one clear line and exit code 2."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"andornot: {error.strerror or error}{where}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("andornot: stopped", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="andornot", description="Image representations that you can compute with: a | b, a & b, ~a."
    )
    parser.add_argument("--version", action="version", version=f"andornot {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo",
        help="the algebra on two pictures",
        description="A worked example of OR, AND and NOT on two pictures: a table, and a drawing of the distributions.",
        epilog="example: andornot demo -o demo/",
    )
    demo.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder for the drawing (default: demo/)")
    demo.set_defaults(run=_demo)
    return parser


def _demo(options: argparse.Namespace) -> None:
    from . import demo

    demo.run(options.output)
