"""Options shared by commands, and options with the defaults of library functions."""

from argparse import ArgumentParser, HelpFormatter, Namespace, _ArgumentGroup
from collections.abc import Callable
from inspect import signature
from typing import Any

from ..errors import AndornotError


def default_of(function: Callable[..., Any], argument: str) -> Any:
    """Return the default of an argument of a function or dataclass."""
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
    """Add an option for an argument of a function or dataclass, with its type and default.

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
    """Wrap prose to the width of the terminal, and keep indented lines as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            paragraph if _is_laid_out(paragraph) else super(Help, self)._fill_text(paragraph, width, indent)
            for paragraph in text.split("\n\n")
        )


def _is_laid_out(paragraph: str) -> bool:
    return any(line.startswith(" ") for line in paragraph.splitlines())


def examples(*commands: str) -> str:
    """Return the examples at the end of a command's help."""
    return "\n  ".join([f"example{'s' * (len(commands) > 1)}:", *commands])


def add_gallery(parser: ArgumentParser, *, required: bool = True, also: str = "") -> None:
    """Add the gallery that a command works on, and the settings of its storage."""
    parser.add_argument(
        "--gallery", required=required, help=f"folder of the gallery, or s3://, gs:// or az://bucket/gallery{also}"
    )
    parser.add_argument(
        "--storage-option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="setting of the object store, such as aws_region=eu-west-1 (default: the usual environment variables)",
    )


def storage_options(options: Namespace) -> dict[str, str]:
    """Return the settings of the gallery's storage; raise an AndornotError if one is not KEY=VALUE."""
    found = {}
    for text in options.storage_option:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise AndornotError(f'"{text}" is not a storage option: write KEY=VALUE')
        found[key] = value
    return found


def add_cluster(parser: ArgumentParser, what: str) -> None:
    """Add the Ray cluster that does the work."""
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help=f"{what} on a Ray cluster: ray://host:port; local, processes of this machine; or auto, the cluster that "
        "RAY_ADDRESS names, else local",
    )


def add_device(parser: ArgumentParser) -> None:
    """Add the device of the model."""
    parser.add_argument(
        "--device",
        default="cpu",
        help="device: cpu, cuda, cuda:1 or mps (default: %(default)s)",
    )


def add_json(parser: ArgumentParser, what: str) -> None:
    """Add an option for JSON output."""
    parser.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def add_changes(parser: ArgumentParser) -> None:
    """Add the option that changes settings of a recipe."""
    parser.add_argument(
        "--set", dest="changes", metavar="KEY=VALUE", action="append", default=[], help="change a setting of the recipe"
    )
