"""The `andornot` command. User errors print one line and exit with code 2."""

import gc
import os
import shlex
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn, Protocol, cast

from ..errors import AndornotError, Stopped, is_out_of_memory
from ..progress import lines
from ..version import __version__
from .openmp import configure_openmp
from .options import Help, examples

# Importing torch creates half a million permanent objects; repeated garbage collection of these takes 0.3 s.
_OBJECTS_BEFORE_COLLECTION: Final = 100_000

# Each is a module of this package.
COMMANDS: Final = {
    "index": "create or update a gallery of images",
    "search": "search a gallery with words, images or a formula",
    "serve": "open a gallery in the browser",
    "define": "define a name for a formula",
    "describe": "tag an image",
    "duplicates": "list exact and near copies",
    "demo": "end-to-end demo on bundled data",
    "pretrain": "train or calibrate a model without labels",
    "evaluate": "measure a model on labelled images",
    "reproduce": "reproduce an experiment of the paper",
}


class Command(Protocol):
    """The interface of a command's module."""

    DESCRIPTION: str
    EXAMPLES: tuple[str, ...]

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the options of the command."""

    def run(self, options: Namespace) -> None:
        """Run the command and print its results. `options.command` is the whole command line."""


class _OneLineParser(ArgumentParser):
    """A parser that reports errors in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 2 wrong usage or input, 130 stopped."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    warnings.showwarning = _show_warning
    configure_openmp()
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
            sys.stdout.flush()  # so that a closed pipe raises here, not when the interpreter exits
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe: discard the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}")
    except Stopped as stopped:
        return _fail(str(stopped), 130)
    except AndornotError as error:
        return _fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        reason = (str(error).splitlines() or ["it could not be allocated"])[0]
        return _fail(f"not enough memory: {reason}")
    return 0


def make_parser(arguments: Sequence[str]) -> ArgumentParser:
    """Return a parser with all commands, but only the options of the called one, which may be slow to import."""
    parser = _OneLineParser(
        prog="andornot",
        description="Find images with AND, OR and NOT, by example and by word.",
        epilog="See andornot COMMAND --help.",
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
