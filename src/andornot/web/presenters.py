"""From one state of a gallery to what the API answers."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from ..data import BrokenImageError
from ..data.decoding import measure
from ..errors import AndornotError, printable
from ..gallery import Gallery, GalleryError, Hit, Where
from ..gallery.browsing import BINS, Browser, Order
from ..gallery.folder_tree import FolderNode
from ..gallery.options import SEARCH_SCORES
from ..gallery.paths import label_of
from ..gallery.records import Picture as Record
from ..logic.atoms import write_name
from ..logic.operators import LOGICS
from ..version import __version__
from . import schemas
from .problems import RequestError
from .thumbnails import version_of

_STRONGEST: Final = 12
_COUNTED: Final = 1000


def tell_gallery(browser: Browser, name: str) -> schemas.GalleryAnswer:
    """The gallery as a whole."""
    return schemas.GalleryAnswer(
        name=printable(name),
        pictures=len(browser),
        broken=browser.broken,
        features=browser.model.num_features,
        values=browser.model.num_values,
        scores=list(SEARCH_SCORES),
        logics=list(LOGICS),
        labels=[schemas.LabelCount(label=printable(label), pictures=count) for label, count in browser.labels.items()],
        taken=None
        if browser.period is None
        else schemas.Period(from_=browser.period[0].isoformat(), to=browser.period[1].isoformat()),
        version=__version__,
        state=browser.fingerprint,
    )


def where_on_disk(where: Where, browser: Browser) -> Where:
    """A filter that names its folder as the API does, in the gallery's words, or a RequestError."""
    if where.folder is None:
        return where
    path = browser.folders.path_of(where.folder)
    if path is None:
        raise RequestError(400, f'the gallery has no folder "{printable(where.folder)}"; /api/folders lists them')
    return replace(where, folder=path)


def tell_folders(node: FolderNode) -> schemas.FolderAnswer:
    """A folder with all in it."""
    return schemas.FolderAnswer(
        name=node.name, folder=node.key, pictures=node.pictures, folders=list(map(tell_folders, node.folders))
    )


def tell_broken(gallery: Gallery, offset: int, limit: int, is_owner: bool) -> schemas.BrokenAnswer:
    """Files that could not be read."""
    broken = sorted(gallery.broken.items())
    return schemas.BrokenAnswer(
        total=len(broken),
        offset=offset,
        files=[
            schemas.BrokenFile(
                name=printable(os.path.basename(path)),  # noqa: PTH119
                reason=printable(reason if is_owner else reason.replace(path, os.path.basename(path))),  # noqa: PTH119
                path=tell_path(path) if is_owner else None,
            )
            for path, reason in broken[offset : offset + limit]
        ],
    )


def tell_definitions(gallery: Gallery) -> schemas.DefinitionsAnswer:
    """Names that were given to formulas, each with the number of its matches."""
    told = []
    for name, formula in gallery.definitions.items():
        term, count = write_name(name), None
        is_condition = False
        with suppress(AndornotError):
            resolved = gallery.resolve(term, ())
            is_condition = resolved.formula.is_condition
            count = sum(not hit.is_weak for hit in gallery.search([resolved], top=_COUNTED)[0])
        kind: Literal["term", "condition"] = "condition" if is_condition else "term"
        told.append(
            schemas.Definition(name=printable(name), term=term, formula=printable(formula), kind=kind, pictures=count)
        )
    return schemas.DefinitionsAnswer(definitions=told)


def tell_pictures(browser: Browser, where: Where, order: Order, offset: int, limit: int) -> schemas.PicturesAnswer:
    """A part of the gallery."""
    try:
        chosen = browser.positions(where_on_disk(where, browser), order)
    except GalleryError as error:  # a label that there is not, or no date
        raise RequestError(400, str(error)) from None
    shown = chosen[offset : offset + limit].tolist()
    return schemas.PicturesAnswer(
        total=len(chosen),
        offset=offset,
        pictures=[_picture(browser, position) for position in shown],
    )


def tell_picture(gallery: Gallery, browser: Browser, identity: int, is_owner: bool) -> schemas.PictureAnswer:
    """One picture; only its owner hears where it is."""
    position = find(browser, identity)
    degrees = browser.represent(position).degrees.numpy()
    strongest = np.argsort(browser.features.mean - degrees, kind="stable")[:_STRONGEST].tolist()
    width, height = size_of(browser.path(position))
    return schemas.PictureAnswer(
        **_picture(browser, position).model_dump(),
        path=tell_path(browser.path(position)) if is_owner else None,
        width=width,
        height=height,
        features=[
            schemas.FeatureDegree(feature=feature, degree=float(degrees[feature]), shown_by=shown_by(browser, feature))
            for feature in strongest
        ],
        words=[schemas.WordTruth(word=shown.word, truth=shown.probability) for shown in gallery.tags(identity)],
    )


def tell_features(browser: Browser, order: str, offset: int, limit: int) -> schemas.FeaturesAnswer:
    """Some of the features, those that differ most between pictures, or that pictures have most of, first."""
    table = browser.features
    by = np.argsort(-(table.spread if order == "spread" else table.mean), kind="stable")
    return schemas.FeaturesAnswer(
        total=len(by),
        features=[
            schemas.Feature(
                feature=feature,
                mean=float(table.mean[feature]),
                spread=float(table.spread[feature]),
                pictures=shown_by(browser, feature),
            )
            for feature in by[offset : offset + limit].tolist()
        ],
    )


def tell_feature(browser: Browser, feature: int, top: int) -> schemas.FeatureAnswer:
    """One feature."""
    if feature >= browser.model.num_features:
        raise RequestError(404, f"there is no feature {feature}: they go from 0 to {browser.model.num_features - 1}")
    degrees = browser.degrees_of_feature(feature)
    counts, edges = np.histogram(degrees, BINS, (0, 1))
    best = np.argsort(-degrees, kind="stable")[:top].tolist()
    return schemas.FeatureAnswer(
        feature=feature,
        mean=float(browser.features.mean[feature]),
        spread=float(browser.features.spread[feature]),
        histogram=[
            schemas.Bin(from_=round(float(low), 4), to=round(float(high), 4), pictures=int(count))
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        ],
        pictures=[
            schemas.PictureDegree(**tell_name(browser, position).model_dump(), degree=float(degrees[position]))
            for position in best
        ],
    )


def tell_hits(hits: Sequence[Hit], stacked_on: Sequence[int | None], browser: Browser) -> list[schemas.Hit]:
    """The hits of a search, each with the earlier one that it nearly equals."""
    return [
        schemas.Hit(
            **tell_name(browser, find(browser, hit.id)).model_dump(),
            label=printable(label_of(hit.path)),
            distance=hit.distance,
            taken=hit.taken,
            taken_from=hit.taken_from,
            truth=hit.truth,
            is_weak=hit.is_weak,
            where=[schemas.Place(term=printable(place.term), box=list(place.box)) for place in hit.where],
            words=list(hit.words),
            why=[
                schemas.Reason(
                    feature=reason.feature,
                    name=reason.name,
                    contribution=reason.contribution,
                    shown_by=[
                        tell_name(browser, position)
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


def shown_by(browser: Browser, feature: int) -> list[schemas.PictureName]:
    """The pictures that have most of a feature."""
    return [tell_name(browser, position) for position in browser.features.shown_by[feature].tolist()]


def find(browser: Browser, identity: int) -> int:
    """The position of a picture by its id, or a RequestError."""
    position = browser.position_of_id(identity)
    if position is None:
        raise RequestError(404, f"there is no picture {identity} in the gallery")
    return position


def record(browser: Browser, identity: int) -> Record:
    """What the gallery knows of a picture by its id, or a RequestError."""
    return browser.picture(find(browser, identity))


def tell_name(browser: Browser, position: int) -> schemas.PictureName:
    """What a picture is called."""
    return schemas.PictureName(
        id=browser.id(position),
        name=printable(browser.name(position)),
        term=browser.term(position),
        version=version_of(browser.digest(position)),
    )


def tell_path(path: str) -> str:
    """Where a file is, so that it can be opened there; a path of bytes that are no text, as people can read it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return printable(path)
    return path


def _picture(browser: Browser, position: int) -> schemas.Picture:
    return schemas.Picture(
        **tell_name(browser, position).model_dump(),
        label=printable(browser.label(position)),
        taken=_time(browser, position),
        taken_from=browser.taken_from(position),
    )


def _time(browser: Browser, position: int) -> str:
    return browser.taken(position).isoformat()


def size_of(path: str) -> tuple[int, int] | tuple[None, None]:
    """Width and height of the picture in a file; None and None if it cannot be read."""
    try:
        return measure(path)
    except BrokenImageError:
        return None, None
