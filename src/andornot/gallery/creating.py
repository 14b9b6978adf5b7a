"""Creating a gallery: its folder, its model, and the empty table of images."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from ..model import Model, ModelError, new_backbone
from ..ssl.calibration import CalibratedHead
from ..ssl.recipe import Recipe, load_recipe
from .checksums import SIZE
from .encoding import CLASSES_SIZE, feature_map_grid, num_regions, vocabulary_of
from .errors import GalleryError
from .projections import REGION_DIMENSIONS
from .records import State
from .rows import ACTIVATIONS, CLASSES, CONFIG_KEY, FULL_REGIONS, NAMED, REGIONS
from .storage import HOLDER, IMAGES, LOCK, Storage, load_lance, writing

# Files that a killed `create` may leave.
_LEFT: Final = (LOCK, HOLDER, IMAGES)


def create_gallery(storage: Storage, model: Model | None, recipe: Recipe | None) -> None:
    """Create an empty gallery. Without a model it gets its own one, made by a recipe and not calibrated yet."""
    if storage.exists():
        raise GalleryError(f"{storage} holds a gallery already; Gallery.open opens it")
    if storage.folder is not None and storage.folder.is_dir():
        others = [child.name for child in storage.folder.iterdir() if not _may_be_left(child.name)]
        if others:
            raise GalleryError(f"{storage} is not empty, and no gallery ({min(others)} is in it): give a new folder")
    chosen = own_model(recipe or load_recipe("photos")) if model is None else model
    if storage.folder is not None:
        storage.folder.mkdir(parents=True, exist_ok=True)
    with writing(storage):
        name = save_model(storage, chosen)
        grid = feature_map_grid(chosen)
        state = State(
            name,
            chosen.id,
            chosen.backbone.width,
            calibrated_on=0 if model is None else None,
            grid=grid if num_regions(grid) else None,
        )
        create_table(storage, state, chosen)


def own_model(recipe: Recipe) -> Model:
    """Return a model with a pretrained backbone and a head that is not calibrated yet."""
    if recipe.regime != "calibrated":
        raise GalleryError(f"a gallery makes calibrated models only; this recipe says {recipe.regime}: train one first")
    backbone = new_backbone(recipe, channels=3)
    return Model(backbone, CalibratedHead(backbone.width, recipe.num_values, recipe.calibration), recipe)


def create_table(storage: Storage, state: State, model: Model) -> None:
    """Create the empty table of images of a gallery with that model."""
    fields = [
        pa.field("id", pa.int64()),
        pa.field("path", pa.binary()),
        pa.field("name", pa.string()),
        pa.field("folder", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("mtime_ns", pa.int64()),
        pa.field("digest", pa.binary(16)),
        pa.field("taken", pa.int64()),
        pa.field("by_camera", pa.bool_()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("checksum", pa.uint32()),
        pa.field("listing_checksum", pa.uint32()),
        *(pa.field(name, pa.uint32()) for name in ("id_checksum", "name_checksum", "path_checksum")),
        pa.field(ACTIVATIONS, pa.binary(2 * state.width + SIZE)),
    ]
    if count := num_regions(state.grid):
        fields.append(pa.field(FULL_REGIONS, pa.binary(2 * count * state.width + SIZE)))
        fields.append(pa.field(REGIONS, pa.binary(count * REGION_DIMENSIONS + SIZE)))
    if (vocabulary := vocabulary_of(model)) is not None:
        fields.append(pa.field(CLASSES, pa.binary(CLASSES_SIZE + SIZE)))
        if vocabulary.heads is not None:
            fields.append(pa.field(NAMED, pa.binary(len(vocabulary.heads.names) + SIZE)))
    # The first state is stored with the schema: the table and its state are created by one commit.
    schema = pa.schema(fields, {CONFIG_KEY: state.to_json()})
    with storage.reading():
        dataset = load_lance().write_dataset(
            schema.empty_table(), storage.uri(IMAGES), mode="create", schema=schema, storage_options=storage.options
        )
    storage.sync_version(IMAGES, dataset)


def model_folder(model: Model) -> str:
    """Return the name of the folder that a model is stored in."""
    return f"model-{model.id}"


def save_model(storage: Storage, model: Model) -> str:
    """Write a model to a folder of the gallery, unless it is there; its name."""
    name = model_folder(model)
    # One that is in use must not be written again: a process that is killed meanwhile would leave half of it.
    if not _has_model(storage, name, model):
        with storage.new_file(name) as folder:
            model.save(folder)
    return name


def _has_model(storage: Storage, name: str, model: Model) -> bool:
    try:
        return Model.load(storage.local_copy(name)).id == model.id
    except ModelError:
        return False


def _may_be_left(name: str) -> bool:
    return name in _LEFT or name.startswith("model-")
