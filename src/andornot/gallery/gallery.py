"""`Gallery`: images that can be searched with formulas, in a folder or an object store."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, overload

import numpy as np

from ..errors import unknown
from ..logic import Formula, Representation
from ..logic.distance import Distance, Score
from ..logic.formula import write_name
from ..model import Model, ModelError
from ..notebook import MOST_TILES
from ..ssl.recipe import Recipe
from ..words import ShownNoun
from ..words.vocabulary import shortened
from .cluster import Cluster, RayShards
from .creating import create_gallery
from .definitions import Defined, Definitions, checked_name, listed
from .encoding import encode_files
from .errors import GalleryError
from .hits import Hits, show_images
from .indexing import Summary, index_paths
from .names import Binding, BoundFormula, Names
from .options import SearchOptions
from .planner import Planner, Query
from .records import State, StrPath, UnreadableFile, absolute
from .repairing import Repaired, repair
from .shard import LocalShard, Shards
from .small_tables import read_definitions, read_unreadable, small_table_versions, write_definitions
from .storage import Storage, writing
from .table import ImageTable
from .writing import open_writer

# What is searched for: a formula, the path or the id of an image, a representation.
Asking = StrPath | Formula | BoundFormula | int | np.integer[Any] | Representation

# A model that was calibrated on fewer images than this gets better when the gallery has become ten times as large.
_FEW: Final = 200
_GROWN: Final = 10


class Gallery:
    """Images with their features: `open`, `create`, `add`, `update`, `remove`, `search`.

    An opened gallery is one version: what others write is seen after `refresh`. One process writes at a time; any
    number may read meanwhile.
    """

    def __init__(self, storage: Storage, cluster: tuple[Cluster, int | None] | None = None) -> None:
        self._storage, self._cluster = storage, cluster
        self._models: dict[str, Model] = {}
        self._planner: Planner | None = None
        self.refresh()

    @classmethod
    def open(
        cls,
        address: StrPath,
        *,
        create: bool = False,
        storage_options: Mapping[str, str] | None = None,
        cluster: str | None = None,
        shards: int | None = None,
    ) -> Gallery:
        """Open what `create` or `andornot index` made, in a folder or at s3://, gs:// or az://.

        `create`: where there is none, create one with a model of its own. `storage_options` are credentials and other
        settings of an object store. `cluster` is a Ray cluster whose nodes search, as for `add`; `shards` is among how
        many processes the images are divided there (default: one for each processor).
        """
        storage = Storage(address, storage_options)
        if create and not storage.exists():
            create_gallery(storage, None, None)
        return cls(storage, None if cluster is None and shards is None else (Cluster(cluster or "auto"), shards))

    @classmethod
    def create(
        cls,
        address: StrPath,
        model: Model | StrPath | None = None,
        *,
        recipe: Recipe | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Gallery:
        """Create an empty gallery, with a copy of the model in it.

        Without a model the gallery makes its own, calibrated on the first images that are added; `recipe` says how
        (default: `photos`).
        """
        storage = Storage(address, storage_options)
        create_gallery(storage, None if model is None else _loaded(model), recipe)
        return cls(storage)

    @staticmethod
    def exists(address: StrPath, storage_options: Mapping[str, str] | None = None) -> bool:
        """Return whether a gallery is there."""
        return Storage(address, storage_options).exists()

    @property
    def address(self) -> str:
        """Where the gallery is: the path of its folder, or its address in an object store."""
        return self._storage.address

    @property
    def folder(self) -> Path | None:
        """The folder of the gallery; None if it is in an object store."""
        return self._storage.folder

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self._storage.name

    # --- versions ---------------------------------------------------------------------------------------------------

    @property
    def version(self) -> tuple[int, ...]:
        """The version that is open."""
        return self._version

    @property
    def latest_version(self) -> tuple[int, ...]:
        """The version that was committed last; quick enough to ask every second."""
        if not self._storage.exists():
            raise GalleryError(f"there is no gallery in {self.address} any more")
        with self._storage.reading():
            return int(self._table.dataset.latest_version), *small_table_versions(self._storage)

    def refresh(self) -> None:
        """Open the version that was committed last."""
        small = small_table_versions(self._storage) if self._storage.exists() else ()
        self._table = ImageTable.open(self._storage)
        self._version: tuple[int, ...] = (self._table.version, *small)
        self._definitions = Definitions(read_definitions(self._storage))
        self._unreadable: dict[str, UnreadableFile] = read_unreadable(self._storage)
        self._former, self._planner = self._planner or getattr(self, "_former", None), None

    def reopen(self) -> Gallery:
        """Return another `Gallery` with the latest version; this one stays as it is. They share what is in memory."""
        latest = copy.copy(self)
        latest.refresh()
        return latest

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"Gallery({len(self):,} images in {self.address})"

    def _repr_html_(self) -> str:
        first = self._table.get_many(self._table.ids[: MOST_TILES + 1])
        broken = f"{len(self.broken):,} more could not be read" if self.broken else ""
        return show_images(repr(self), [(record.path, f"#{record.id}") for record in first], broken)

    @property
    def paths(self) -> list[str]:
        """The paths of all images, in the order of their ids."""
        return list(self._table.paths)

    @property
    def ids(self) -> list[int]:
        """The ids of all images. An image keeps its id when its file is moved or changed; none is used again."""
        return [*map(int, self._table.ids)]

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that `update` scans."""
        return self._table.state.folders

    @property
    def broken(self) -> dict[str, str]:
        """Files that could not be read as images, with the reasons."""
        return {path: file.reason for path, file in self._unreadable.items()}

    # --- the model --------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The gallery's model."""
        state = self._table.state
        try:
            return self._model_of(state)
        except GalleryError:
            self.refresh()  # recalibrated by another process, perhaps
            if self._table.state.model == state.model:
                raise
            return self.model

    def _model_of(self, state: State) -> Model:
        if state.model_id not in self._models:
            try:
                model = Model.load(self._storage.local_copy(state.model))
                if model.id != state.model_id:
                    raise ModelError(
                        f"{self._storage.uri(state.model)} is not the model that the gallery was made with"
                    )
            except ModelError as error:
                raise GalleryError(
                    f"{error}; andornot index --repair makes it again where that can be done, and --repair --model "
                    "takes another copy of it"
                ) from None
            self._models = {state.model_id: model}
        return self._models[state.model_id]

    def check_model(self, model: Model) -> None:
        """Raise a GalleryError unless it is the gallery's own: vectors of different models cannot be compared."""
        if model.id != self._table.state.model_id:
            raise GalleryError(
                f"{self.address} was made with model {self._table.state.model_id}, and this one is {model.id}: "
                "leave --model out, or make another gallery"
            )

    # --- writing ----------------------------------------------------------------------------------------------------

    def add(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        prune: bool = False,
        cluster: str | None = None,
        progress: bool | None = None,
    ) -> Summary:
        """Bring the gallery up to date with some folders and files, and leave the others as they are.

        New images are encoded, changed ones again, moved ones are recognised by their content, and those that are gone
        are dropped. A folder that is missing or empty, though it had images, is an error unless `prune`. `cluster`: a
        Ray cluster that decodes and encodes, "ray://host:port", "local" for one of this machine's processors, or
        "auto": the one of RAY_ADDRESS, or else local.
        """
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        return self._bring_up_to_date([str(absolute(path)) for path in given], prune, cluster, progress)

    def update(self, *, prune: bool = False, cluster: str | None = None, progress: bool | None = None) -> Summary:
        """Do the same for every folder and file that was ever added."""
        return self._bring_up_to_date(None, prune, cluster, progress)

    def remove(self, names: str | Iterable[str]) -> int:
        """Remove images from the gallery, by path, file name or id, and return how many. The files stay.

        As long as a file is in one of the gallery's folders, the next `update` adds it again.
        """
        with open_writer(self._storage) as writer:
            finder = Names(writer.table)
            chosen: set[int] = set()
            for name in [names] if isinstance(names, str) else names:
                found = finder.images(str(name))
                if len(found) != 1:
                    count = f"{len(found)} images are" if found else "no image is"
                    raise GalleryError(f'{count} called "{name}" in {self.address}')
                chosen.add(found[0].id)
            for identity in chosen:
                writer.remove(identity)
            writer.commit()
        self.refresh()
        return len(chosen)

    def recalibrate(self) -> None:
        """Recalibrate the model on all images of the gallery. No image is read: their activations are stored."""
        with open_writer(self._storage) as writer:
            writer.calibrate(self._model_of(writer.state))
            writer.finish()
        self.refresh()

    @classmethod
    def repair(
        cls,
        address: StrPath,
        model: Model | StrPath | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        progress: bool | None = None,
    ) -> Repaired:
        """Encode images with damaged rows again, drop what cannot be read, and return what was done.

        `model` is another copy of the gallery's model, for one that is damaged or lost. Without it, a model that the
        gallery calibrated for itself is calibrated again.
        """
        return repair(Storage(address, storage_options), None if model is None else _loaded(model), progress)

    @property
    def needs_recalibration(self) -> bool:
        """Whether the model was calibrated on few images, and there are many now."""
        calibrated_on = self._table.state.calibrated_on or 0
        return 0 < calibrated_on < _FEW and len(self) >= _GROWN * calibrated_on

    def _bring_up_to_date(
        self, paths: list[str] | None, prune: bool, cluster: str | None, progress: bool | None
    ) -> Summary:
        workers = None if cluster is None else Cluster(cluster)
        with open_writer(self._storage) as writer:
            encode = encode_files if workers is None else workers.encoder(writer)
            summary = index_paths(writer, self._model_of(writer.state), paths, encode, prune, progress)
        self.refresh()
        return summary

    # --- names and words --------------------------------------------------------------------------------------------

    def define(self, name: str, formula: str | Formula) -> Defined:
        """Define a name for a formula, to be used in other formulas: `define("sunset", "like(s1.jpg, s2.jpg)")`.

        Its images must be in the gallery. They are meant by their ids: their files may be moved, and the model
        calibrated anew. It may use words and other definitions. A name that was defined before gets another meaning.
        """
        asked, chosen = formula if isinstance(formula, Formula) else Formula(formula), checked_name(name)
        with writing(self._storage):
            self.refresh()
            kept = self.planner.names.define(chosen, asked)
            stored = read_definitions(self._storage)
            stored.pop(kept.name, None)
            write_definitions(self._storage, {**stored, kept.name: kept.formula})
        self.refresh()
        return Defined(kept.name, self.definitions[kept.name], kept.hides)

    def undefine(self, name: str) -> None:
        """Remove a definition that no other one uses."""
        with writing(self._storage):
            self.refresh()
            definitions = self._definitions
            known = definitions.called(name)
            if known is None:
                raise GalleryError(unknown("definition", shortened(name), definitions))
            if users := definitions.users_of(known):
                raise GalleryError(f'"{known}" is needed by {listed(users)}: remove that first')
            stored = read_definitions(self._storage)
            del stored[known]
            write_definitions(self._storage, stored)
        self.refresh()

    @property
    def definitions(self) -> dict[str, str]:
        """The formula of each name that was defined, with images as people name them."""
        definitions = self._definitions
        if not list(definitions):
            return {}
        return {name: self.planner.names.readable(definitions.formula(name)) for name in definitions}

    def describe(self, image: StrPath | int) -> list[ShownNoun]:
        """Return the words of an image, the most probable first; none if nothing is likely.

        The image is one of the gallery by id, path or file name, or an image file. A gallery whose model has no
        words, or that was indexed before there were words, is a WordError.
        """
        return self.planner.encoder.describe(self._one(image))

    def words(self, beginning: str = "") -> dict[str, int]:
        """Return the words that begin so with their number of images, the most frequent first."""
        return self.planner.words.complete(beginning)

    def _one(self, image: StrPath | int) -> Binding:
        name = os.fspath(image) if isinstance(image, os.PathLike) else str(image)
        return next(iter(self.resolve(f"image:{write_name(name)}").named.values()))

    # --- searching --------------------------------------------------------------------------------------------------

    @overload
    def search(
        self,
        formula: Asking,
        top: int = ...,
        score: str | Score | Distance = ...,
        *,
        options: SearchOptions | None = ...,
        images: Mapping[str, Representation] | None = ...,
        **more: Any,
    ) -> Hits: ...
    @overload
    def search(
        self,
        formula: Iterable[Asking],
        top: int = ...,
        score: str | Score | Distance = ...,
        *,
        options: SearchOptions | None = ...,
        images: Mapping[str, Representation] | None = ...,
        **more: Any,
    ) -> list[Hits]: ...
    def search(
        self,
        formula: Asking | Iterable[Asking],
        top: int = SearchOptions.top,
        score: str | Score | Distance = SearchOptions.score,
        *,
        options: SearchOptions | None = None,
        images: Mapping[str, Representation] | None = None,
        **more: Any,
    ) -> Hits | list[Hits]:
        """Return the hits of a formula, best first; for a list of formulas, a list of hits for each.

        The path or the id of an image, and a `Representation`, serve as a formula. One that leaves nothing to look
        for, such as `a - a`, is an EmptyQueryError. A name in a formula is an image of the gallery, by id, path, end
        of a path or file name; or else a name that was defined; or a word, which is what those images of the gallery
        share that show it best; or an image file, which is encoded. Images that a formula names are no hits of it,
        unless `include_queries`. `more` is whatever `SearchOptions` has beside `top` and `score`; or `options` says
        all of it. `images` says what names outside the gallery stand for; then no path is looked at, and a name is an
        id, a file name or one of these.
        """
        if options is None:
            options = SearchOptions(top, score, **more)
        elif more or (top, score) != (SearchOptions.top, SearchOptions.score):
            raise TypeError("search takes options, or each of them by its name, and not both")
        given = _several(formula)
        asked = [_query(one) for one in ([formula] if given is None else given)]
        queries = [self.resolve(one, images) if isinstance(one, Formula) else one for one in asked]
        results = [Hits(hits) for hits in self.planner.search(queries, options, images or {})]
        return results[0] if given is None else results

    def resolve(self, formula: str | Formula, images: Collection[str] | None = None) -> BoundFormula:
        """Bind the names of a formula; the result is a query of this version of the gallery.

        `images` are the names of images outside, as for `search`.
        """
        return self.planner.names.resolve(formula if isinstance(formula, Formula) else Formula(formula), images)

    def represent(self, names: Iterable[StrPath | int]) -> Representation:
        """Return the representations `(n, N, M)` of images by id, path or file name, or of other image files."""
        formulas = [Formula(write_name(name if isinstance(name, str) else str(name))) for name in names]
        return self.planner.encoder.represent([thing for one in formulas for thing in self.resolve(one).named.values()])

    @property
    def _ready_model(self) -> Model:
        model = self.model  # which may refresh
        if self._table.state.calibrated_on == 0:
            raise GalleryError(f"the first index of {self.address} was not finished: rerun andornot index to resume it")
        return model

    @property
    def planner(self) -> Planner:
        """The planner of searches in this version, for programs that need more than `search`."""
        if self._planner is None:
            model = self._ready_model
            shards = self._opened_shards(model)
            self._planner = Planner(self._table, model, self._definitions, self._unreadable, shards)
            self._former = None
        return self._planner

    def _opened_shards(self, model: Model) -> Shards:
        former = self._former
        if former is not None and former.table.state.model_id == self._table.state.model_id:
            return former.shards.for_version(self._table, model)
        if self._cluster is None:
            return LocalShard.open(self._table, model)
        cluster, count = self._cluster
        return RayShards.open(cluster, self._table, count)


def _several(formula: Asking | Iterable[Asking]) -> Iterable[Asking] | None:
    """Return the queries of a list or a batch of representations; None for a single query."""
    if isinstance(formula, Representation):
        return formula if formula.batch_shape else None
    return formula if isinstance(formula, Iterable) and not isinstance(formula, str | bytes) else None


def _query(asking: object) -> Formula | Query:
    if isinstance(asking, Formula | BoundFormula | Representation):
        return asking
    if isinstance(asking, os.PathLike):
        return Formula(write_name(os.fspath(asking)))
    if isinstance(asking, str | int | np.integer):
        return Formula(str(asking))
    raise GalleryError(f"a query is a formula, a path, an id or a Representation, got {type(asking).__name__}")


def _loaded(model: Model | StrPath) -> Model:
    return model if isinstance(model, Model) else Model.load(model)
