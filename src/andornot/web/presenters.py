"""Conversion of a gallery's data to the answers of the API."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from ..choices import LOGICS
from ..data import BrokenImageError
from ..data.decoding import measure
from ..errors import AndornotError, printable
from ..gallery import Filter, Gallery, Hit
from ..gallery.errors import FilterError
from ..gallery.near_duplicates import DuplicateImage
from ..gallery.options import SEARCH_SCORES
from ..gallery.records import ImageRecord, parent_folder
from ..logic.atoms import write_name
from ..version import __version__
from . import schemas
from .browsing import BINS, Browser, FolderNode, Order
from .errors import RequestError
from .responses import version_of

_STRONGEST_FEATURES: Final = 12
_MAX_COUNTED: Final = 1000
_COVER: Final = 4


def present_gallery(browser: Browser, name: str, can_define: bool) -> schemas.GalleryAnswer:
    """Return facts about the gallery."""
    return schemas.GalleryAnswer(
        name=printable(name),
        images=len(browser),
        broken=browser.broken,
        features=browser.model.num_features,
        values=browser.model.num_values,
        scores=list(SEARCH_SCORES),
        logics=list(LOGICS),
        labels=[schemas.LabelCount(label=printable(label), images=count) for label, count in browser.labels.items()],
        taken=None
        if browser.period is None
        else schemas.Period(from_=browser.period[0].isoformat(), to=browser.period[1].isoformat()),
        version=__version__,
        state=browser.fingerprint,
        can_define=can_define,
    )


def filter_on_disk(where: Filter, browser: Browser) -> Filter:
    """Return a filter of the API with the path of its folder on disk, or raise a RequestError."""
    if where.folder is None:
        return where
    path = browser.folder_path(where.folder)
    if path is None:
        message = f'the gallery has no folder "{printable(where.folder)}"; see /api/folders for a list'
        raise RequestError(400, "invalid-filter", message)
    return replace(where, folder=path)


def present_folders(node: FolderNode) -> schemas.FolderAnswer:
    """Return a folder with its subfolders."""
    return schemas.FolderAnswer(
        name=node.name, folder=node.key, images=node.images, folders=list(map(present_folders, node.folders))
    )


def present_broken(gallery: Gallery, offset: int, limit: int, is_local: bool) -> schemas.BrokenAnswer:
    """Return files that could not be read."""
    broken = sorted(gallery.broken.items())
    return schemas.BrokenAnswer(
        total=len(broken),
        offset=offset,
        files=[
            schemas.BrokenFile(
                name=printable(os.path.basename(path)),  # noqa: PTH119
                reason=printable(reason if is_local else reason.replace(path, os.path.basename(path))),  # noqa: PTH119
                path=shown_path(path) if is_local else None,
            )
            for path, reason in broken[offset : offset + limit]
        ],
    )


def present_definitions(gallery: Gallery, browser: Browser) -> schemas.DefinitionsAnswer:
    """Return the defined names, each with the number of its hits and the best of them."""
    presented = []
    for name, formula in gallery.definitions.items():
        term, count = write_name(name), None
        hits: list[Hit] = []
        is_condition = False
        with suppress(AndornotError):
            resolved = gallery.resolve(term, ())
            is_condition = resolved.formula.is_condition
            hits = gallery.search([resolved], top=_MAX_COUNTED)[0]
            count = sum(not hit.is_weak for hit in hits)
        kind: Literal["term", "condition"] = "condition" if is_condition else "term"
        presented.append(
            schemas.DefinedName(
                name=printable(name),
                term=term,
                formula=printable(formula),
                kind=kind,
                images=count,
                hits=[present_name(browser, position_of(browser, hit.id)) for hit in hits[:_COVER]],
            )
        )
    return schemas.DefinitionsAnswer(definitions=presented)


def present_duplicates(
    browser: Browser, groups: Sequence[Sequence[DuplicateImage]], offset: int, limit: int, is_local: bool
) -> schemas.DuplicatesAnswer:
    """Return a page of the groups of duplicates."""
    shown = groups[offset : offset + limit]
    browser.load([position_of(browser, image.id) for group in shown for image in group])
    return schemas.DuplicatesAnswer(
        total=len(groups),
        images=sum(map(len, groups)),
        offset=offset,
        groups=[
            schemas.DuplicateGroup(
                images=[
                    schemas.DuplicateAnswer(
                        **_image(browser, position_of(browser, image.id)).model_dump(),
                        copy_=image.copy,
                        bytes=image.size,
                        path=shown_path(image.path) if is_local else None,
                    )
                    for image in group
                ]
            )
            for group in shown
        ],
    )


def present_images(browser: Browser, where: Filter, order: Order, offset: int, limit: int) -> schemas.ImagesAnswer:
    """Return a page of the images that pass a filter."""
    chosen = _positions(browser, where, order)
    shown = chosen[offset : offset + limit].tolist()
    browser.load(shown)
    return schemas.ImagesAnswer(
        total=len(chosen),
        offset=offset,
        images=[_image(browser, position) for position in shown],
    )


def present_timeline(browser: Browser, where: Filter) -> schemas.TimelineAnswer:
    """Return the number of images of each month, newest first."""
    counts = browser.months(_positions(browser, where, "id"))
    return schemas.TimelineAnswer(
        months=[schemas.MonthCount(month=month, images=count) for month, count in reversed(counts.items())]
    )


def _positions(browser: Browser, where: Filter, order: Order) -> np.ndarray:
    try:
        return browser.positions(filter_on_disk(where, browser), order)
    except FilterError as error:
        raise RequestError(400, "invalid-filter", str(error)) from None


def present_image(gallery: Gallery, browser: Browser, identity: int, is_local: bool) -> schemas.ImageAnswer:
    """Return one image; its path only if the request is local."""
    position = position_of(browser, identity)
    degrees = browser.represent(position).degrees.numpy()
    strongest = np.argsort(browser.features.mean - degrees, kind="stable")[:_STRONGEST_FEATURES].tolist()
    record = browser.record(position)
    return schemas.ImageAnswer(
        **_image(browser, position).model_dump(),
        path=shown_path(record.path) if is_local else None,
        features=[
            schemas.FeatureDegree(
                feature=feature, degree=float(degrees[feature]), shown_by=strongest_images(browser, feature)
            )
            for feature in strongest
        ],
        words=[
            schemas.WordTruth(word=tag.word, term=write_name(tag.word), truth=tag.probability)
            for tag in gallery.planner.words.describe(np.array([identity]))[0]
        ],
    )


def present_features(browser: Browser, order: str, offset: int, limit: int) -> schemas.FeaturesAnswer:
    """Return a page of the features, by standard deviation or by mean of their degrees."""
    table = browser.features
    by = np.argsort(-(table.spread if order == "spread" else table.mean), kind="stable")
    return schemas.FeaturesAnswer(
        total=len(by),
        features=[
            schemas.FeatureSummary(
                feature=feature,
                mean=float(table.mean[feature]),
                spread=float(table.spread[feature]),
                images=strongest_images(browser, feature),
            )
            for feature in by[offset : offset + limit].tolist()
        ],
    )


def present_feature(browser: Browser, feature: int, top: int) -> schemas.FeatureAnswer:
    """Return one feature, or raise a RequestError."""
    if feature >= browser.model.num_features:
        last = browser.model.num_features - 1
        raise RequestError(404, "not-found", f"there is no feature {feature}: features are 0 to {last}")
    degrees = browser.degrees_of_feature(feature)
    counts, edges = np.histogram(degrees, BINS, (0, 1))
    best = np.argsort(-degrees, kind="stable")[:top].tolist()
    return schemas.FeatureAnswer(
        feature=feature,
        mean=float(browser.features.mean[feature]),
        spread=float(browser.features.spread[feature]),
        histogram=[
            schemas.HistogramBin(from_=round(float(low), 4), to=round(float(high), 4), images=int(count))
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        ],
        images=[
            schemas.ImageDegree(**present_name(browser, position).model_dump(), degree=float(degrees[position]))
            for position in best
        ],
    )


def present_hits(hits: Sequence[Hit], stacked_on: Sequence[int | None], browser: Browser) -> list[schemas.SearchHit]:
    """Return the hits of a search, each with the earlier hit that it is a near duplicate of."""
    browser.load([position_of(browser, hit.id) for hit in hits])
    return [
        schemas.SearchHit(
            **present_name(browser, position_of(browser, hit.id)).model_dump(),
            label=printable(parent_folder(hit.path)),
            distance=hit.distance,
            taken=hit.taken,
            taken_from=hit.taken_from,
            truth=hit.truth,
            strength=hit.strength,
            is_weak=hit.is_weak,
            boxes=[schemas.TermBoxAnswer(term=printable(found.term), box=list(found.box)) for found in hit.boxes],
            words=dict(hit.words),
            terms={printable(term): truth for term, truth in hit.terms.items()},
            why=[
                schemas.HitReason(
                    feature=reason.feature,
                    name=reason.name,
                    contribution=reason.contribution,
                    shown_by=[
                        present_name(browser, position)
                        for position in map(browser.position_of_path, reason.shown_by)
                        if position is not None
                    ],
                )
                for reason in hit.why
            ],
            stacked_on=under,
        )
        for hit, under in zip(hits, stacked_on, strict=True)
    ]


def strongest_images(browser: Browser, feature: int) -> list[schemas.ImageName]:
    """Return the images with the highest degrees of a feature."""
    return [present_name(browser, position) for position in browser.features.shown_by[feature].tolist()]


def position_of(browser: Browser, identity: int) -> int:
    """Return the position of an image by its id, or raise a RequestError."""
    position = browser.position_of_id(identity)
    if position is None:
        raise RequestError(404, "not-found", f"there is no image {identity} in the gallery")
    return position


def image_record(browser: Browser, identity: int) -> ImageRecord:
    """Return the record of an image by its id, or raise a RequestError."""
    return browser.record(position_of(browser, identity))


def present_name(browser: Browser, position: int) -> schemas.ImageName:
    """Return the names and the size of an image."""
    record = browser.record(position)
    return schemas.ImageName(
        id=record.id,
        name=printable(record.name),
        term=browser.term(position),
        version=version_of(record.digest),
        width=record.width,
        height=record.height,
    )


def shown_path(path: str) -> str:
    """Return a path unchanged, or escaped if it is not valid UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return printable(path)
    return path


def _image(browser: Browser, position: int) -> schemas.ImageSummary:
    return schemas.ImageSummary(
        **present_name(browser, position).model_dump(),
        label=printable(browser.label(position)),
        taken=_time(browser, position),
        taken_from=browser.taken_from(position),
    )


def _time(browser: Browser, position: int) -> str:
    return browser.taken(position).isoformat()


def image_size(path: str) -> tuple[int, int] | tuple[None, None]:
    """Return the width and height of an image file; None and None if it cannot be read."""
    try:
        return measure(path)
    except BrokenImageError:
        return None, None
