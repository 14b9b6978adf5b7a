"""`andornot index`: makes a gallery, or brings it up to date."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..choices import SCORES
from ..errors import printable
from .options import add_device, add_engine, add_gallery, add_json

if TYPE_CHECKING:
    from ..gallery import Gallery, Summary

DESCRIPTION: Final = """\
Encodes the pictures of folders into a gallery: the first time all, later only what changed.
Without FOLDER it looks through all folders that the gallery knows. The gallery calibrates a model of
its own on the first pictures, unless one is given. Stopped or killed, the same command goes on."""
EXAMPLES: Final = (
    "andornot index photos/ --gallery g/",
    "andornot index --gallery g/ --watch",
    "andornot index /nas/photos --gallery g/ --cluster ray://head:10001",
)

_WATCH_SECONDS: Final = 3.0
_SHOWN_BROKEN: Final = 10


def add_options(parser: ArgumentParser) -> None:
    """Which folders into which gallery, and what is to be done besides."""
    parser.add_argument("folders", metavar="FOLDER", nargs="*", help="folders of pictures")
    add_gallery(parser)
    parser.add_argument("--model", type=Path, help="folder of a model (default: the gallery's own)")
    add_engine(parser)
    add_device(parser)
    parser.add_argument(
        "--score",
        action="append",
        choices=SCORES,
        default=[],
        help="prepare fast searches by this score as well (may be repeated)",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="decode and encode on a Ray cluster, whose nodes see the folders at the same paths: ray://host:port; "
        "local, processes of this machine; or auto, the cluster that RAY_ADDRESS names, else local",
    )
    parser.add_argument("--watch", action="store_true", help="keep up with the folders until stopped")
    parser.add_argument("--prune", action="store_true", help="drop the pictures of folders that are missing or empty")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="first drop what is damaged, and make it anew; with --model, take that for a damaged model",
    )
    parser.add_argument(
        "--recalibrate", action="store_true", help="afterwards calibrate the model on all pictures anew"
    )
    parser.add_argument(
        "--regions",
        action="store_true",
        help="look once more at pictures that an earlier version indexed, for their regions and words",
    )
    add_json(parser, "a summary")


def run(options: Namespace) -> None:
    """Indexes, and prints each summary as it happens."""
    from ..gallery import Gallery
    from ..model import check_device

    check_device(options.device)  # a mistake leaves nothing behind
    if options.cluster is not None:
        from ..gallery.cluster import Cluster

        Cluster(options.cluster)  # a mistake leaves nothing behind
    if options.repair:
        repaired = Gallery.repair(options.gallery, options.model, recalibrate=options.recalibrate)
        print(json.dumps({"repaired": str(repaired)}) if options.json else f"repair: {repaired}", flush=True)
    gallery = _open_or_create(options)
    gallery.model.to(options.device)
    how = {"prune": options.prune, "regions": options.regions, "cluster": options.cluster}
    summary = gallery.add(options.folders, **how) if options.folders else gallery.update(**how)
    if options.recalibrate:
        gallery.recalibrate()
    for score in options.score:
        gallery.prepare(score)
    _tell(gallery, summary, options)
    if options.watch:
        for summary in _changes(gallery, how):
            _tell(gallery, summary, options)


def _open_or_create(options: Namespace) -> Gallery:
    from ..gallery import Gallery, GalleryError
    from ..gallery.scope import check_places
    from ..model import Model

    if Gallery.exists(options.gallery):
        gallery = Gallery.open(options.gallery, engine=options.engine)
        if options.model is not None:
            gallery.check_model(Model.load(options.model))
        return gallery
    if not options.folders:
        raise GalleryError(f"there is no gallery in {options.gallery} yet: give the folders of its pictures")
    check_places(options.folders)  # a mistake leaves nothing behind
    return Gallery.create(options.gallery, options.model, engine=options.engine)


def _changes(gallery: Gallery, how: dict[str, Any]) -> Iterator[Summary]:
    """What changes in the folders, for ever."""
    from ..gallery.errors import LockedError

    while True:
        time.sleep(_WATCH_SECONDS)
        try:
            summary = gallery.update(**how)
        except LockedError:  # another one writes: there will be a next time
            continue
        if summary.is_news:
            yield summary


def _tell(gallery: Gallery, summary: Summary, options: Namespace) -> None:
    if options.json:
        told: dict[str, Any] = {"gallery": str(options.gallery), "pictures": len(gallery), **asdict(summary)}
        print(json.dumps(told), flush=True)
    else:
        print("\n".join(_lines(gallery, summary, options.gallery)), flush=True)


def _lines(gallery: Gallery, summary: Summary, folder: Path) -> Iterator[str]:
    from ..gallery.scope import told_skipped

    yield from (f"  {line}" for line in told_skipped(summary.skipped))
    for path, reason in list(summary.broken.items())[:_SHOWN_BROKEN]:
        yield f"  cannot be read: {printable(path)}: {reason}"
    if len(summary.broken) > _SHOWN_BROKEN:
        yield f"  … and {len(summary.broken) - _SHOWN_BROKEN:,} more"
    yield f"{summary}: {len(gallery):,} {'picture is' if len(gallery) == 1 else 'pictures are'} in {folder}"
    if gallery.would_gain_by_recalibration:
        yield (
            "the gallery has grown much since its model was calibrated: "
            f"andornot index --gallery {folder} --recalibrate adapts the model, in a moment"
        )
    if lacking := gallery.without_regions:
        yield f"{lacking:,} have no regions or words yet: andornot index --gallery {folder} --regions adds them"
