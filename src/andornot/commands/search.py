"""`andornot search`: search a gallery with a formula."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import printable
from ..gallery.options import Option, SearchOptions, options_of
from .options import add_gallery, add_json, storage_options

if TYPE_CHECKING:
    from ..gallery import Hit

DESCRIPTION: Final = """\
A condition says what images must show: dog and a.jpg and not b.jpg. A term describes an image:
a.jpg | b.jpg has the features of both, a.jpg & b.jpg what they share. A name is an image of the
gallery (file name, path, or id), a name you defined, a word, or an image file; word:dog and image:dog
choose explicitly. Quote names with spaces or operators, and for the shell the whole formula if it
has operators, brackets or quotes."""
EXAMPLES: Final = (
    "andornot search dog and not sofa --gallery g/",
    "andornot search 'dog.jpg and sofa.jpg and not person' --gallery g/ --top 10 --sheet hits.png",
    "andornot search '(dog.jpg | \"my ball.jpg\") - ./new/cat.png' --gallery g/ --sheet hits.png",
)


def add_options(parser: ArgumentParser) -> None:
    """Add the formula, the search options, and the output options."""
    parser.add_argument(
        "formula", metavar="FORMULA", nargs="+", help="such as 'dog and not b.jpg', '(a.jpg | b.jpg) - c.jpg'"
    )
    add_gallery(parser)
    for option in options_of(SearchOptions):
        _add_option(parser, option)
    parser.add_argument("--sheet", type=Path, metavar="FILE", help="draw the hits into an image file")
    add_json(parser, "the hits")


def _add_option(parser: ArgumentParser, option: Option) -> None:
    flag = f"--{option.name.replace('_', '-')}"
    if option.kind is bool:
        parser.add_argument(flag, action="store_true", help=option.help)
        return
    parser.add_argument(
        flag,
        type=option.kind,
        default=option.default,
        choices=option.choices or None,
        metavar=option.metavar,
        help=option.help if option.default is None else f"{option.help} (default: %(default)s)",
    )


def run(options: Namespace) -> None:
    """Search, draw the contact sheet if asked, and print the hits."""
    from ..gallery import Gallery

    if options.sheet is not None:
        from ..contact_sheet import check_format

        check_format(options.sheet)
    gallery = Gallery.open(options.gallery, storage_options=storage_options(options))
    text = " ".join(options.formula)  # a formula of words needs no quotes
    asked, formula = SearchOptions.of(vars(options)), gallery.resolve(text)
    hits = gallery.search(formula, options=asked)
    if options.sheet is not None:
        from ..contact_sheet import save_sheet

        queries = {name: thing.path for name, thing in formula.named.items() if thing.path}
        score = "truth" if formula.formula.is_condition else options.score
        save_sheet(options.sheet, text, queries, hits, score)
    if options.json:
        found = [asdict(hit) for hit in hits]
        print(json.dumps({"formula": text, "score": options.score, "hits": found}))
    else:
        print("\n".join(_table(hits)) or _nothing_found(asked))


def _table(hits: Sequence[Hit]) -> Iterator[str]:
    from ..gallery.hits import weak_from

    weak = weak_from(hits)
    for number, hit in enumerate(hits):
        if number == weak:
            yield "       weak matches below: may be chance matches"
        yield from _lines(hit)


def _lines(hit: Hit) -> Iterator[str]:
    from ..gallery.hits import percent

    shows = f"  ({', '.join(hit.words)})" if hit.words else ""
    yield f"{percent(hit.truth):>5}  {printable(hit.path)}  #{hit.id}{shows}"
    for reason in hit.why:
        shown = ", ".join(printable(Path(path).name) for path in reason.shown_by)
        name = f'"{reason.name}" (feature {reason.feature})' if reason.name else f"feature {reason.feature}"
        yield f"       {name} contributed {reason.contribution:.4f}; strongest in {shown}"


def _nothing_found(asked: SearchOptions) -> str:
    if asked.min_truth:
        return f"no hits with a truth of at least {asked.min_truth:g}"
    where = asked.filter
    if where.file_dates or (where.after is None and where.before is None):
        return "no hits"
    return "no hits; --file-dates uses the file date if EXIF has none"
