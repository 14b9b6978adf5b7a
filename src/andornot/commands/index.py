"""`andornot index`: create or update a gallery."""

from __future__ import annotations

import json
import shlex
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import printable
from .options import add_cluster, add_device, add_gallery, add_json, storage_options

if TYPE_CHECKING:
    from ..gallery import Gallery, Summary

DESCRIPTION: Final = """\
Encodes the images of folders into a gallery: the first time all, later only what changed.
Without FOLDER it scans all folders that the gallery knows. The gallery calibrates a model of its own
on the first images, unless one is given. If interrupted, rerun to resume."""
EXAMPLES: Final = (
    "andornot index photos/ --gallery g/",
    "andornot index --gallery g/ --watch",
    "andornot index /nas/photos --gallery s3://bucket/g --cluster ray://head:10001",
)

# Image sizes: an image is encoded with as many pixels as a square of this side.
DETAILS: Final = {"normal": 224, "high": 336}
_WATCH_SECONDS: Final = 3.0
_SHOWN_BROKEN: Final = 10


def add_options(parser: ArgumentParser) -> None:
    """Add the folders, the gallery, and other options."""
    parser.add_argument("folders", metavar="FOLDER", nargs="*", help="folders of images")
    add_gallery(parser)
    parser.add_argument("--model", type=Path, help="folder of a model (default: the gallery's own)")
    parser.add_argument(
        "--detail",
        choices=DETAILS,
        help="of a new gallery: normal, or high for small things, at 2.2 times the work (default: normal)",
    )
    add_device(parser)
    add_cluster(parser, "decode and encode")
    parser.add_argument("--watch", action="store_true", help="watch the folders until stopped")
    parser.add_argument("--prune", action="store_true", help="drop the images of folders that are missing or empty")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="first re-encode damaged entries; with --model, restore a damaged model from that copy",
    )
    parser.add_argument("--recalibrate", action="store_true", help="afterwards recalibrate the model on all images")
    add_json(parser, "a summary")


def run(options: Namespace) -> None:
    """Index, and print each summary when it is available."""
    from ..gallery import Gallery
    from ..model import check_device

    check_device(options.device)  # fail before anything is created
    storage = storage_options(options)
    if options.cluster is not None:
        from ..gallery.cluster import Cluster

        Cluster(options.cluster)  # fail before anything is created
    if options.repair:
        repaired = Gallery.repair(options.gallery, options.model, storage_options=storage)
        print(json.dumps({"repaired": str(repaired)}) if options.json else f"repair: {repaired}", flush=True)
    is_new = not Gallery.exists(options.gallery, storage)
    gallery = _open_or_create(options, storage)
    gallery.model.to(options.device)
    how = {"prune": options.prune, "cluster": options.cluster}
    summary = gallery.add(options.folders, **how) if options.folders else gallery.update(**how)
    if options.recalibrate:
        gallery.recalibrate()
    _tell(gallery, summary, options)
    if is_new and not options.json:
        print(f"Next: andornot serve --gallery {shlex.quote(options.gallery)} --open", flush=True)
    if options.watch:
        for summary in _changes(gallery, how):
            _tell(gallery, summary, options)


def _open_or_create(options: Namespace, storage: dict[str, str]) -> Gallery:
    from ..gallery import Gallery, GalleryError
    from ..gallery.scanning import check_folders
    from ..model import Model
    from ..ssl import load_recipe

    if Gallery.exists(options.gallery, storage):
        gallery = Gallery.open(options.gallery, storage_options=storage)
        if options.model is not None:
            gallery.check_model(Model.load(options.model))
        if options.detail is not None and gallery.model.size != DETAILS[options.detail]:
            raise GalleryError(f"{options.gallery} has another detail, which stays; a new gallery can have this one")
        return gallery
    if not options.folders:
        raise GalleryError(f"there is no gallery in {options.gallery} yet: give the folders of its images")
    check_folders(options.folders)  # fail before anything is created
    if options.model is not None and options.detail is not None:
        raise GalleryError("a model has its own detail: leave out --detail or --model")
    recipe = load_recipe("photos", size=DETAILS[options.detail or "normal"])
    return Gallery.create(options.gallery, options.model, recipe=recipe, storage_options=storage)


def _changes(gallery: Gallery, how: dict[str, Any]) -> Iterator[Summary]:
    """Watch the folders forever and yield a summary of each change. A missing folder may reappear."""
    from ..gallery.errors import DamagedError, GalleryError, LockedError

    said = ""
    while True:
        time.sleep(_WATCH_SECONDS)
        try:
            summary = gallery.update(**how)
        except LockedError:  # another process is writing: try again later
            continue
        except DamagedError:
            raise
        except GalleryError as error:
            if str(error) != said:
                said = str(error)
                print(f"andornot: {said}; trying again", file=sys.stderr, flush=True)
            continue
        said = ""
        if summary.is_news:
            yield summary


def _tell(gallery: Gallery, summary: Summary, options: Namespace) -> None:
    if options.json:
        told: dict[str, Any] = {"gallery": str(options.gallery), "images": len(gallery), **asdict(summary)}
        print(json.dumps(told), flush=True)
    else:
        print("\n".join(_lines(gallery, summary, options.gallery)), flush=True)


def _lines(gallery: Gallery, summary: Summary, folder: str) -> Iterator[str]:
    from ..gallery.scanning import describe_skipped

    yield from (f"  {line}" for line in describe_skipped(summary.skipped))
    for path, reason in list(summary.broken.items())[:_SHOWN_BROKEN]:
        yield f"  cannot be read: {printable(path)}: {reason}"
    if len(summary.broken) > _SHOWN_BROKEN:
        yield f"  … and {len(summary.broken) - _SHOWN_BROKEN:,} more"
    yield f"{summary}: {len(gallery):,} {'image is' if len(gallery) == 1 else 'images are'} in {folder}"
    if gallery.needs_recalibration:
        yield (
            "the gallery has grown much since its model was calibrated; to recalibrate it: "
            f"andornot index --gallery {folder} --recalibrate"
        )
