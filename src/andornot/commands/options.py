"""Options that several commands have, and options whose default stands in the library alone."""

from argparse import ArgumentParser, HelpFormatter, _ArgumentGroup
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any


def default_of(function: Callable[..., Any], argument: str) -> Any:
    """What an argument is unless it is given; of a function, or of a dataclass."""
    return signature(function).parameters[argument].default


def add_argument_of(
    function: Callable[..., Any],
    parser: ArgumentParser | _ArgumentGroup,
    flag: str,
    help: str,  # noqa: A002 - argparse's word
    *,
    argument: str | None = None,
    **how: Any,
) -> None:
    """An option for an argument of a function or dataclass, by default of the same name: its type and default are its.

    >>> parser = ArgumentParser()
    >>> add_argument_of(lambda *, top=10: ..., parser, "--top", "how many")
    >>> parser.parse_args([]).top, parser.parse_args(["--top=3"]).top
    (10, 3)
    """
    default = default_of(function, argument or flag.lstrip("-").replace("-", "_"))
    if default is False:
        parser.add_argument(flag, action="store_true", help=help, **how)
    else:
        parser.add_argument(flag, type=type(default), default=default, help=f"{help} (default: %(default)s)", **how)


class Help(HelpFormatter):
    """Prose is as wide as the terminal; what is indented, a list or commands to copy, stands as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            paragraph if _is_laid_out(paragraph) else super(Help, self)._fill_text(paragraph, width, indent)
            for paragraph in text.split("\n\n")
        )


def _is_laid_out(paragraph: str) -> bool:
    return any(line.startswith(" ") for line in paragraph.splitlines())


def examples(*commands: str) -> str:
    """What the help of a command ends with."""
    return "\n  ".join([f"example{'s' * (len(commands) > 1)}:", *commands])


def add_gallery(parser: ArgumentParser, *, may_be_remote: bool = False) -> None:
    """The gallery that a command works on."""
    also = ", or milvus://host:port/collection where `index` has put it" if may_be_remote else ""
    kind = _place if may_be_remote else Path
    parser.add_argument("--gallery", type=kind, required=True, help=f"folder of the gallery{also}")


def _place(text: str) -> Path | str:
    """A folder, or an address, in which a Path would lose a slash."""
    return text if text.startswith("milvus:") else Path(text)


def add_engine(parser: ArgumentParser) -> None:
    """What finds the pictures of a gallery."""
    parser.add_argument(
        "--engine",
        default="auto",
        metavar="ENGINE",
        help="what finds the pictures: auto, exact, faiss or milvus://host:port/collection (default: %(default)s)",
    )


def add_device(parser: ArgumentParser) -> None:
    """Where a model computes."""
    parser.add_argument(
        "--device",
        default="cpu",
        help="where the network computes: cpu, cuda, cuda:1 or mps (default: %(default)s)",
    )


def add_json(parser: ArgumentParser, what: str) -> None:
    """The answer as JSON."""
    parser.add_argument("--json", action="store_true", help=f"print {what} for programs")


def add_changes(parser: ArgumentParser) -> None:
    """Changes of a recipe."""
    parser.add_argument(
        "--set", dest="changes", metavar="KEY=VALUE", action="append", default=[], help="change a setting of the recipe"
    )
