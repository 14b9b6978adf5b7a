"""`andornot serve`: a gallery as a page in the browser."""

from __future__ import annotations

import webbrowser
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from ..web.serve import DEFAULT_PORT, serve
from .options import add_argument_of, add_engine, add_gallery

if TYPE_CHECKING:
    from ..gallery import Gallery

DESCRIPTION: Final = """\
Serves a page to search a gallery by clicking, and the same as an HTTP API, until Ctrl-C.
Only this machine can reach it, unless --host says so; then the printed address has a token in it."""
EXAMPLES: Final = ("andornot serve --gallery g/ --open", "andornot serve --gallery g/ --host 0.0.0.0")


def add_options(parser: ArgumentParser) -> None:
    """Which gallery, where, and who may see what."""
    add_gallery(parser, may_be_remote=True)
    add_argument_of(serve, parser, "--host", "address to listen at")
    parser.add_argument(
        "--port", type=int, help=f"port to listen at (default: {DEFAULT_PORT}, or the next that is free)"
    )
    parser.add_argument("--no-auth", action="store_true", help="no token: whoever reaches the address may look")
    parser.add_argument("--no-paths", action="store_true", help="do not say where pictures are, as for other hosts")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_engine(parser)


def run(options: Namespace) -> None:
    """Serves until it is stopped, and prints the address."""

    def tell(gallery: Gallery, address: str) -> None:
        print(f"{gallery.folder.name} is at {address}  (Ctrl-C stops)", flush=True)
        if options.open:
            webbrowser.open(address)

    serve(
        options.gallery,
        host=options.host,
        port=options.port,
        engine=options.engine,
        needs_token=not options.no_auth,
        tells_paths=not options.no_paths,
        ready=tell,
    )
