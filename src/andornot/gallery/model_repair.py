"""A gallery's model that is damaged or lost: found, taken from another copy, or made again, and never taken on trust.

Features that are stored were made by the model's backbone. So a backbone is the right one if it makes the same of the
same pictures.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from ..data.errors import BrokenImageError
from ..model import DESCRIPTION, Model, ModelError, new_backbone
from ..ssl.calibration import CalibratedHead
from ..ssl.recipe import Recipe, load_recipe, make_recipe
from .database import Picture, State
from .digests import digest_of
from .errors import DamagedError, GalleryError
from .feature_store import as_rows, checksum
from .writer import MODEL_NAME

# So many pictures are encoded to see whether a backbone is the right one; batches and versions differ a little.
_TRIED: Final = 8
_TOLERANCE: Final = 0.02


ReadRow = Callable[[int], np.ndarray]


class Mended(NamedTuple):
    """A model that fits the gallery. `told` says where it came from, if it is not the one that the state names.

    `calibrated_on` is as in `State`: 0 for one that must be calibrated on the stored features.
    """

    model: Model
    told: str = ""
    calibrated_on: int | None = None


def own_model(folder: Path, state: State) -> Model | None:
    """The model that the state names, if it is whole."""
    try:
        model = Model.load(folder / state.model)
    except ModelError:
        return None
    return model if model.id == state.model_id and model.backbone.width == state.width else None


def mended_model(
    folder: Path, state: State, pictures: list[Picture], read: ReadRow, given: Model | None, recalibrate: bool
) -> Mended:
    """The model for a gallery whose state is known; a GalleryError that says how to go on, if there is none.

    One that the gallery calibrated for itself is calibrated anew, and one that was given only if `recalibrate`: that
    gives another one.
    """
    if (own := own_model(folder, state)) is not None:
        return Mended(own, calibrated_on=state.calibrated_on)
    file = folder / state.model
    for name, model in any_model(folder, state.model, None):
        if model.id == state.model_id:
            return Mended(model, f"{file} was damaged: {name}, which is the same, replaces it", state.calibrated_on)
    if given is not None:
        if given.id == state.model_id:
            return Mended(
                given, f"{file} was damaged: the given model, which is the same, replaces it", state.calibrated_on
            )
        if reproduces(given, pictures, read, state.width):
            return Mended(given, f"{file} was damaged: the given model, which makes the same features, replaces it")
        raise GalleryError(f"the given model {given.id} is not the one of {folder}, which is {state.model_id}")
    recipe = _recipe(file)
    ways = "andornot index --repair --model COPY takes another copy of it"
    if recipe.regime == "calibrated":
        backbone = new_backbone(recipe, channels=3)
        fresh = Model(backbone, CalibratedHead(backbone.width, recipe.num_values, recipe.calibration), recipe)
        is_right = reproduces(fresh, pictures, read, state.width)
        if is_right and (recalibrate or state.calibrated_on is not None):
            told = f"{file} was damaged: it is calibrated anew on the stored features of {len(pictures):,} pictures"
            return Mended(fresh, told, 0)
        if is_right:
            raise GalleryError(
                f"{file} is damaged: {ways}, and --repair --recalibrate calibrates it anew on the stored features"
            )
    raise GalleryError(
        f"{file} is damaged, and cannot be made again from what is there: {ways}; or index the pictures into a new "
        "gallery"
    )


def any_model(folder: Path, named: str, given: Model | None) -> list[tuple[str, Model]]:
    """Models that a gallery whose state is lost may have had, likely ones first, with the names of their folders."""
    names = sorted((child.name for child in folder.iterdir() if MODEL_NAME.fullmatch(child.name)), reverse=True)
    names.sort(key=lambda name: name != named)
    found = [] if given is None else [("", given)]
    for name in names:
        try:
            found.append((name, Model.load(folder / name)))
        except ModelError:
            continue
    return found


def reproduces(model: Model, pictures: list[Picture], read: ReadRow, width: int) -> bool | None:
    """Whether the model makes the features that are stored; None if no picture is left to tell by."""
    if model.backbone.width != width:
        return False
    same = []
    for picture in pictures:
        try:
            stored = read(picture.row)
            if checksum(stored) != picture.features_crc or digest_of(picture.path) != picture.digest:
                continue
            made = as_rows(model.activations([picture.path], progress=False))[0]
        except (OSError, BrokenImageError, DamagedError):
            continue
        same.append(np.abs(made - stored).max() <= _TOLERANCE * max(float(np.abs(stored).max()), 1e-3))
        if len(same) == _TRIED:
            break
    return None if not same else bool(np.mean(same) > 0.5)


def is_uncalibrated(model: Model) -> bool:
    """Whether the model was saved before its gallery was indexed for the first time."""
    return isinstance(model.head, CalibratedHead) and not bool(model.head.quantiles.any())


def _recipe(model: Path) -> Recipe:
    """What the model's description says, if that is whole; else what galleries take by themselves."""
    try:
        return make_recipe(json.loads((model / DESCRIPTION).read_text(encoding="utf-8"))["recipe"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return load_recipe("photos")
