"""`andornot serve`: open a gallery in the browser."""

from __future__ import annotations

import webbrowser
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from ..web.serve import DEFAULT_PORT, serve
from .options import add_argument_of, add_cluster, add_gallery, storage_options

if TYPE_CHECKING:
    from ..gallery import Gallery

DESCRIPTION: Final = """\
Serves a page and an HTTP API to search a gallery, until Ctrl-C. Only this machine can reach it,
unless --host is given; then the printed address contains a token."""
EXAMPLES: Final = (
    "andornot serve --gallery g/ --open",
    "andornot serve --gallery g/ --host 0.0.0.0",
    "andornot serve --gallery s3://bucket/g --cluster ray://head:10001 --shards 8",
)


def add_options(parser: ArgumentParser) -> None:
    """Add the gallery, the address, and access options."""
    add_gallery(parser)
    add_argument_of(serve, parser, "--host", "address to listen at")
    parser.add_argument(
        "--port", type=int, help=f"port to listen at (default: {DEFAULT_PORT}, or the next that is free)"
    )
    parser.add_argument("--no-auth", action="store_true", help="disable authentication")
    parser.add_argument("--no-paths", action="store_true", help="hide file paths")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_cluster(parser, "search")
    parser.add_argument(
        "--shards", type=int, metavar="N", help="processes of the cluster that hold the gallery (default: one per CPU)"
    )


def run(options: Namespace) -> None:
    """Serve until stopped, and print the address."""

    def tell(gallery: Gallery, address: str) -> None:
        print(f"{gallery.name} is at {address}  (Ctrl-C stops)", flush=True)
        if options.open:
            webbrowser.open(address)

    serve(
        options.gallery,
        host=options.host,
        port=options.port,
        storage_options=storage_options(options),
        cluster=options.cluster,
        shards=options.shards,
        needs_token=not options.no_auth,
        show_paths=not options.no_paths,
        ready=tell,
    )
