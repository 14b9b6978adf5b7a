"""`andornot search`: search a gallery with a formula."""

from __future__ import annotations

import json
import tempfile
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import printable
from ..gallery.options import Option, SearchOptions, options_of
from .options import add_gallery, add_json, storage_options
from .terminal_images import image_writer

if TYPE_CHECKING:
    from ..gallery import Hit
    from ..gallery.names import BoundFormula

DESCRIPTION: Final = """\
Plain text is understood, and printed as the formula it was read as: dogs on a beach without people.
A condition says what images must show: dog and a.jpg and not b.jpg. A term describes an image:
a.jpg | b.jpg has the features of both, a.jpg & b.jpg what they share. A name is an image of the
gallery (file name, path, or id), a name you defined, a word, or an image file; word:dog and image:dog
choose explicitly. except a.jpg leaves out that image. Quote names with spaces or operators, and for the
shell the whole formula if it has operators, brackets or quotes."""
EXAMPLES: Final = (
    "andornot search dogs on a sofa without people --gallery g/ --open",
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
    parser.add_argument("--open", action="store_true", help="show the hits as an image, in the usual viewer")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the hits as CSV: percentages, words and paths")
    parser.add_argument("--copy-to", type=Path, metavar="FOLDER", help="copy the hits there; no file is overwritten")
    parser.add_argument("--link-to", type=Path, metavar="FOLDER", help="link to the hits there; no file is overwritten")
    add_json(parser, "the hits")


def _add_option(parser: ArgumentParser, option: Option) -> None:
    flag = f"--{option.name.replace('_', '-')}"
    if option.kind is bool:
        parser.add_argument(flag, action="store_true", help=option.help)
        return
    if option.kind is tuple:
        parser.add_argument(flag, type=int, action="append", default=[], metavar=option.metavar, help=option.help)
        return
    choices = f": {', '.join(option.choices)}" if option.choices else ""  # too long for the usage line
    parser.add_argument(
        flag,
        type=option.kind,
        default=option.default,
        choices=option.choices or None,
        metavar=option.name.upper() if option.choices else option.metavar,
        help=f"{option.help}{choices}" + ("" if option.default is None else " (default: %(default)s)"),
    )


def run(options: Namespace) -> None:
    """Search, show or export the hits if asked, and print them."""
    from ..gallery import Gallery

    if options.sheet is not None:
        from ..contact_sheet import check_format

        check_format(options.sheet)
    gallery = Gallery.open(options.gallery, storage_options=storage_options(options))
    text = " ".join(options.formula)  # join arguments, so that a formula of words needs no quotes
    asked, formula = SearchOptions.of(vars(options)), gallery.resolve(text)
    hits = gallery.search(formula, options=asked)
    _show(text, formula, hits, options)
    _export(hits, options)
    if options.json:
        found = [{**asdict(hit), "is_weak": hit.is_weak} for hit in hits]
        notes = [note._asdict() for note in hits.notes]
        told = {"formula": text, "understood": hits.understood, "score": options.score, "notes": notes, "hits": found}
        print(json.dumps(told))
    else:
        if hits.understood:
            print(f"understood: {printable(hits.understood)}")
        for note in hits.notes:
            print(printable(str(note)))
        print("\n".join(_table(hits, asked.why)) or _nothing_found(asked))


def _show(text: str, formula: BoundFormula, hits: Sequence[Hit], options: Namespace) -> None:
    """Show the hits in a file, the default viewer, or a terminal that supports images."""
    write = None if options.json else image_writer()
    if write is None and options.sheet is None and not options.open:
        return
    from ..contact_sheet import draw_sheet

    sheet = draw_sheet(text, {name: thing.path for name, thing in formula.named.items() if thing.path}, hits)
    file = options.sheet
    if options.open and file is None:
        file = Path(tempfile.mkdtemp(prefix="andornot-")) / "hits.png"
    if file is not None:
        sheet.save(file)
    if options.open:
        webbrowser.open(file.resolve().as_uri())
    elif write is not None and hits:
        print(write(sheet))


def _export(hits: Sequence[Hit], options: Namespace) -> None:
    from ..gallery.exporting import COLUMNS, csv_table, escape_cell, export_files, hit_row

    if options.csv is not None:
        rows = [(*hit_row(rank, hit), escape_cell(printable(hit.path))) for rank, hit in enumerate(hits, 1)]
        options.csv.write_bytes(csv_table([(*COLUMNS, "path"), *rows]))
    for folder, link in ((options.copy_to, False), (options.link_to, True)):
        if folder is not None:
            written = export_files(hits, folder, link=link)
            if not options.json:
                print(f"{len(written):,} files {'linked' if link else 'copied'} to {folder}")


def _table(hits: Sequence[Hit], why: bool) -> Iterator[str]:
    from ..gallery.hits import weak_from

    weak = weak_from(hits)
    for number, hit in enumerate(hits):
        if number == weak:
            yield "       weak matches below: may be chance matches"
        yield from _lines(hit, why)


def _lines(hit: Hit, why: bool) -> Iterator[str]:
    from ..gallery.hits import percent

    shown = ", ".join(f"{word} {percent(probability)}" for word, probability in hit.words.items())
    shows = f"  ({shown})" if shown else ""
    yield f"{percent(hit.truth):>5}  {printable(hit.path)}  #{hit.id}{shows}"
    if why and len(hit.terms) > 1:
        yield f"       {', '.join(f'{printable(term)} {percent(truth)}' for term, truth in hit.terms.items())}"
    for reason in hit.why if why else ():
        if reason.name:  # unnamed features are only in the --json output
            shown = ", ".join(printable(Path(path).name) for path in reason.shown_by)
            yield f'       "{reason.name}" contributed {reason.contribution:.4f}; strongest in {shown}'


def _nothing_found(asked: SearchOptions) -> str:
    if asked.min_truth:
        return f"no hits with a truth of at least {asked.min_truth:g}"
    where = asked.filter
    if where.file_dates or (where.after is None and where.before is None):
        return "no hits"
    return "no hits; --file-dates uses the file date if EXIF has none"
