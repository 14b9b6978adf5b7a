"""`andornot …`: parses, calls, prints. A user's mistake is one clear line and exit code 2."""

import gc
import os
import shlex
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn, Protocol, cast

from ..errors import AndornotError, Stopped
from ..progress import lines
from ..version import __version__
from .options import Help, examples
from .sharing import share_processors

# To import torch makes half a million objects that stay: to look through them for garbage again and again takes 0.3 s.
_OBJECTS_BEFORE_COLLECTION: Final = 100_000

# Each is a module beside this one. What most people need comes first.
COMMANDS: Final = {
    "index": "make a gallery of folders of pictures, or bring it up to date",
    "search": "find the pictures of a gallery that fit a formula best",
    "serve": "open a gallery as a page in the browser",
    "define": "give a formula a name of your own, kept in a gallery",
    "describe": "say in words what a picture shows",
    "demo": "the main job on embedded data, in a few minutes",
    "pretrain": "make a model of pictures, with no labels of yours",
    "evaluate": "measure a model on labelled pictures",
    "reproduce": "repeat an experiment of the paper",
}


class Command(Protocol):
    """What the module of a command has."""

    DESCRIPTION: str
    EXAMPLES: tuple[str, ...]

    def add_options(self, parser: ArgumentParser) -> None:
        """Says what may be typed."""

    def run(self, options: Namespace) -> None:
        """Does it, and prints what came of it. `options.command` is the whole line, for results to quote."""


class _Parser(ArgumentParser):
    """Says what is wrong in one line, which the usage of all options would push out of sight."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help says more\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 done, 2 wrong usage or input, 130 stopped."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    warnings.showwarning = _show_warning
    share_processors()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION, *gc.get_threshold()[1:])
    try:
        try:
            parser = make_parser(given)
            if not given:
                parser.print_help(sys.stderr)
                return 2
            options = parser.parse_args(given)
            options.command = shlex.join(["andornot", *given])
            with lines():
                options.run(options)
        finally:
            sys.stdout.flush()  # a pipe that nobody reads any more is met here, and not by the interpreter as it ends
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except BrokenPipeError:
        # Whoever read the output has seen enough, as `head` does; what is left to write goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}")
    except Stopped as stopped:
        return _fail(str(stopped), 130)
    except AndornotError as error:
        return _fail(str(error))
    return 0


def make_parser(arguments: Sequence[str]) -> ArgumentParser:
    """Knows the names of all commands, and the options of the one that is called: some take seconds to import."""
    parser = _Parser(
        prog="andornot",
        description="Find pictures with AND, OR and NOT, by example and by word; and compute with pictures.",
        epilog="andornot COMMAND --help says more about one.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"andornot {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        one = commands.add_parser(name, help=summary, formatter_class=Help, allow_abbrev=False)
        if name == called:
            command = cast(Command, import_module(f".{name}", __package__))
            one.description = command.DESCRIPTION
            one.epilog = examples(*command.EXAMPLES)
            command.add_options(one)
            one.set_defaults(run=command.run)
    return parser


def _fail(message: str, code: int = 2) -> int:
    print(f"andornot: {message}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"andornot: warning: {message}", file=sys.stderr)
