"""`andornot search`: the pictures of a gallery that are nearest to a formula."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import printable
from ..gallery.options import Option, SearchOptions, options_of
from .options import add_engine, add_gallery, add_json

if TYPE_CHECKING:
    from ..gallery import Hit

DESCRIPTION: Final = """\
A condition says what pictures must show: dog and a.jpg and not b.jpg. A term describes a picture:
a.jpg | b.jpg has the features of both, a.jpg & b.jpg what they share. A name is a picture of the
gallery (file name, path, or the number of a former hit), a name that you defined, a word, or else a
picture file; word:dog and picture:dog insist. Names with spaces or signs go in quotes; the formula
itself too, for the shell, if it has signs, brackets or quotes."""
EXAMPLES: Final = (
    "andornot search dog and not sofa --gallery g/",
    "andornot search 'dog.jpg and sofa.jpg and not person' --gallery g/ --top 10 --sheet hits.png",
    "andornot search '(dog.jpg | \"my ball.jpg\") - ./new/cat.png' --gallery g/ --sheet hits.png",
)


def add_options(parser: ArgumentParser) -> None:
    """What to look for, how to compare, which pictures may be found, and how to show them."""
    parser.add_argument(
        "formula", metavar="FORMULA", nargs="+", help="such as 'dog and not b.jpg', '(a.jpg | b.jpg) - c.jpg'"
    )
    add_gallery(parser, may_be_remote=True)
    for option in options_of(SearchOptions):
        _add_option(parser, option)
    add_engine(parser)
    parser.add_argument("--sheet", type=Path, metavar="FILE", help="draw the pictures of the search")
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
    """Searches once, draws the sheet if one is asked for, and prints the hits."""
    from ..gallery import Gallery

    if options.sheet is not None:
        from ..gallery.contact_sheet import check_format

        check_format(options.sheet)
    gallery = Gallery.open(options.gallery, engine=options.engine)
    text = " ".join(options.formula)  # without signs it needs no quotes of the shell
    asked, formula = SearchOptions.of(vars(options)), gallery.resolve(text)
    hits = gallery.search(formula, options=asked)
    if options.sheet is not None:
        from ..gallery.contact_sheet import save_sheet

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
            yield "       weak matches below: unrelated pictures may reach as much"
        yield from _lines(hit)


def _lines(hit: Hit) -> Iterator[str]:
    from ..gallery.hits import percent

    shows = f"  ({', '.join(hit.words)})" if hit.words else ""
    yield f"{percent(hit.truth):>5}  {printable(hit.path)}  #{hit.id}{shows}"
    for reason in hit.why:
        shown = ", ".join(printable(Path(path).name) for path in reason.shown_by)
        name = f'"{reason.name}" (feature {reason.feature})' if reason.name else f"feature {reason.feature}"
        yield f"       {name} gave {reason.contribution:.4f}; most in {shown}"


def _nothing_found(asked: SearchOptions) -> str:
    if asked.min_truth:
        return f"nothing was found with a truth of {asked.min_truth:g} or more"
    where = asked.where
    if where.file_dates or (where.after is None and where.before is None):
        return "nothing was found"
    return "nothing was found; --file-dates takes the date of its file for a picture that no camera dated"
