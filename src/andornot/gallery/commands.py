"""`andornot index` and `andornot search`: from options to what is printed."""

import json
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ..errors import printable
from ..model import Model
from .errors import GalleryError, LockedError
from .gallery import Gallery
from .indexing import Summary
from .options import SearchOptions, Where
from .paths import absolute
from .scope import check_places, told_skipped
from .searching import Hit

_WATCH_SECONDS: Final = 3.0
_SHOWN_BROKEN: Final = 10


def index(options: Namespace) -> Iterator[str]:
    """Makes a gallery or brings it up to date; what is to be printed, as it happens."""
    if options.repair:
        repaired = Gallery.repair(options.gallery, options.model, recalibrate=options.recalibrate)
        yield json.dumps({"repaired": str(repaired)}) if options.json else f"repair: {repaired}"
    gallery = _open_or_create(options)
    summary = (
        gallery.add(options.folders, prune=options.prune) if options.folders else gallery.update(prune=options.prune)
    )
    if options.recalibrate:
        gallery.recalibrate()
    for score in options.score or ():
        gallery.prepare(score)
    yield from _told(gallery, summary, options)
    while options.watch:
        time.sleep(_WATCH_SECONDS)
        try:
            summary = gallery.update(prune=options.prune)
        except LockedError:  # another one writes: there will be a next time
            continue
        if summary.is_news:
            yield from _told(gallery, summary, options)


def search(options: Namespace) -> str:
    """Searches once; what is to be printed."""
    if options.sheet is not None:
        from .contact_sheet import check_format

        check_format(options.sheet)
    gallery = Gallery.open(options.gallery, engine=options.engine)
    asked = SearchOptions.of(vars(options))
    formula = gallery.resolve(options.formula)
    hits = gallery.search(formula, options=asked)
    if options.sheet is not None:
        from .contact_sheet import save_sheet

        queries = {name: thing.path for name, thing in formula.named.items()}
        save_sheet(options.sheet, options.formula, queries, hits, options.score)
    if options.json:
        return json.dumps({"formula": options.formula, "score": options.score, "hits": [asdict(hit) for hit in hits]})
    return "\n".join(line for hit in hits for line in _lines(hit)) or _nothing_found(asked.where)


def _nothing_found(where: Where) -> str:
    if where.file_dates or (where.after is None and where.before is None):
        return "nothing was found"
    return "nothing was found; --file-dates takes the date of its file for a picture that no camera dated"


def _open_or_create(options: Namespace) -> Gallery:
    if Gallery.exists(options.gallery):
        gallery = Gallery.open(options.gallery, engine=options.engine)
        if options.model is not None:
            gallery.check_model(Model.load(options.model))
        return gallery
    if not options.folders:
        raise GalleryError(f"there is no gallery in {options.gallery} yet: give the folders of its pictures")
    check_places(str(absolute(folder)) for folder in options.folders)  # before anything is made
    return Gallery.create(options.gallery, options.model, engine=options.engine)


def _told(gallery: Gallery, summary: Summary, options: Namespace) -> Iterator[str]:
    if options.json:
        told: dict[str, Any] = {"gallery": str(options.gallery), "pictures": len(gallery), **asdict(summary)}
        yield json.dumps(told)
        return
    yield from (f"  {line}" for line in told_skipped(summary.skipped))
    for path, reason in list(summary.broken.items())[:_SHOWN_BROKEN]:
        yield f"  cannot be read: {printable(path)}: {reason}"
    if len(summary.broken) > _SHOWN_BROKEN:
        yield f"  … and {len(summary.broken) - _SHOWN_BROKEN:,} more"
    yield f"{summary}: {len(gallery):,} pictures are in {options.gallery}"
    if gallery.would_gain_by_recalibration:
        yield "the gallery has grown much since its model was calibrated: --recalibrate adapts the model, in a moment"


def _lines(hit: Hit) -> Iterator[str]:
    yield f"{hit.distance:.4f}  {printable(hit.path)}  #{hit.id}"
    for reason in hit.why:
        shown = ", ".join(printable(Path(path).name) for path in reason.shown_by)
        yield f"        feature {reason.feature} gave {reason.contribution:.4f}; most in {shown}"
