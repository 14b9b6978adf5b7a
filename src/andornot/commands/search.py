"""`andornot search`: the pictures of a gallery that are nearest to a formula."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..choices import LOGICS, SCORES, SEMANTICS
from ..errors import printable
from .options import add_engine, add_gallery, add_json

if TYPE_CHECKING:
    from ..gallery import Hit, Where

DESCRIPTION: Final = """\
A name in the formula is a picture of the gallery (file name, path, or the number of a former
hit), or else a picture file. Names with spaces or signs go in quotes; the formula itself too, for the shell."""
EXAMPLES: Final = (
    "andornot search 'beach.jpg & ~crowd.jpg' --gallery g/ --top 10",
    "andornot search '(dog.jpg | \"my ball.jpg\") - ./new/cat.png' --gallery g/ --sheet hits.png",
)


def add_options(parser: ArgumentParser) -> None:
    """What to look for, how to compare, which pictures may be found, and how to show them."""
    parser.add_argument("formula", metavar="FORMULA", help="such as 'a.jpg & ~b.jpg', '(a.jpg | b.jpg) - c.jpg'")
    add_gallery(parser)
    # Spelled out, because `Gallery.search` loads torch; a test holds that they are its own.
    parser.add_argument("--top", type=int, default=10, metavar="K", help="how many pictures (default: %(default)s)")
    parser.add_argument(
        "--score", choices=[*SCORES, "centred"], default="degrees", help="how to compare (default: %(default)s)"
    )
    parser.add_argument("--semantics", choices=SEMANTICS, default="exact", help="default: %(default)s")
    parser.add_argument("--logic", choices=LOGICS, default="godel", help="default: %(default)s")
    parser.add_argument("--include-queries", action="store_true", help="also the pictures that the formula names")
    parser.add_argument("--why", action="store_true", help="which features carried each match, and who shows them most")
    add_engine(parser)
    parser.add_argument("--folder", help="only pictures in this folder")
    parser.add_argument("--label", help="only pictures whose own folder has this name")
    parser.add_argument("--after", metavar="DATE", help="only pictures taken then or later, as 2024 or 2024-05-31")
    parser.add_argument("--before", metavar="DATE", help="only pictures taken before then")
    parser.add_argument(
        "--file-dates", action="store_true", help="a picture that no camera dated has the date of its file"
    )
    parser.add_argument("--sheet", type=Path, metavar="FILE", help="draw the pictures of the search")
    add_json(parser, "the hits")


def run(options: Namespace) -> None:
    """Searches once, draws the sheet if one is asked for, and prints the hits."""
    from ..gallery import Gallery, Where

    if options.sheet is not None:
        from ..gallery.sheet import check_format

        check_format(options.sheet)
    gallery = Gallery.open(options.gallery, engine=options.engine)
    where = Where(options.folder, options.label, options.after, options.before, options.file_dates)
    hits = gallery.search(
        options.formula,
        options.top,
        options.score,
        semantics=options.semantics,
        logic=options.logic,
        where=where,
        include_queries=options.include_queries,
        why=options.why,
    )
    if options.sheet is not None:
        from ..gallery.sheet import save_sheet

        queries = {name: thing.path for name, thing in gallery.named(options.formula).items()}
        save_sheet(options.sheet, options.formula, queries, hits, options.score)
    if options.json:
        found = [asdict(hit) for hit in hits]
        print(json.dumps({"formula": options.formula, "score": options.score, "hits": found}))
    else:
        print("\n".join(line for hit in hits for line in _lines(hit)) or _nothing_found(where))


def _lines(hit: Hit) -> Iterator[str]:
    yield f"{hit.distance:.4f}  {printable(hit.path)}  #{hit.id}"
    for reason in hit.why:
        shown = ", ".join(printable(Path(path).name) for path in reason.shown_by)
        yield f"        feature {reason.feature} gave {reason.contribution:.4f}; most in {shown}"


def _nothing_found(where: Where) -> str:
    if where.file_dates or (where.after is None and where.before is None):
        return "nothing was found"
    return "nothing was found; --file-dates takes the date of its file for a picture that no camera dated"
