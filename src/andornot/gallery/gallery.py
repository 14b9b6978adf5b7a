"""`Gallery`: images that can be searched with formulas, in a folder or an object store."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, overload

from ..concepts import ShownNoun
from ..concepts.vocabulary import shortened
from ..errors import unknown
from ..logic import Formula, Representation
from ..logic.distance import Distance, Score
from ..logic.formula import write_name
from ..model import Model, ModelError
from ..notebook import MOST_TILES
from ..ssl.recipe import Recipe
from .cluster import Cluster, RayShards
from .definitions import Defined, checked_name, listed
from .encoding import encode_files
from .errors import GalleryError
from .hits import Hits, show_images
from .indexing import Summary, index_paths
from .names import Binding, BoundFormula, Names
from .near_duplicates import DuplicateImage
from .options import SearchOptions
from .planner import Planner
from .queries import QueryLike, as_query, several_queries
from .records import State, StrPath, absolute
from .repairing import Repaired, repair
from .shard import Shard
from .storage import Storage
from .table import ImageTable
from .writing import create_gallery, load_copy, load_model, open_writer

# A model that was calibrated on fewer images than this improves when the gallery has grown tenfold.
_FEW: Final = 200
_GROWN: Final = 10


class Gallery:
    """A searchable collection of images: `open`, `create`, `add`, `update`, `remove`, `search`.

    An opened gallery is one version; `refresh` shows changes by other processes. Only one process can write at a time,
    but any number can read meanwhile.
    """

    def __init__(self, storage: Storage, cluster: tuple[Cluster, int | None] | None = None) -> None:
        self._storage, self._cluster = storage, cluster
        self._models: dict[str, Model] = {}
        self._planner: Planner | None = None
        self._former: Planner | None = None
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
        """Open a gallery made by `create` or `andornot index`, in a folder or at s3://, gs:// or az://.

        `create`: create a gallery with its own model if there is none. `storage_options` are credentials and other
        settings of an object store. `cluster` is a Ray cluster that runs the searches, as for `add`; `shards` is the
        number of processes that share the images there (default: one per processor).
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

        Without a model, the gallery makes its own by `recipe` (default: `photos`) and calibrates it on the first images
        that are added.
        """
        storage = Storage(address, storage_options)
        create_gallery(storage, load_copy(model), recipe)
        return cls(storage)

    @staticmethod
    def exists(address: StrPath, storage_options: Mapping[str, str] | None = None) -> bool:
        """Return whether there is a gallery at the address."""
        return Storage(address, storage_options).exists()

    @property
    def address(self) -> str:
        """The path of the gallery's folder, or its address in an object store."""
        return self._storage.address

    @property
    def folder(self) -> Path | None:
        """The folder of the gallery; None if it is in an object store."""
        return self._storage.folder

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._storage.name

    # --- versions ---------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The version that is open."""
        return self._table.version

    @property
    def latest_version(self) -> int:
        """The version that was committed last; fast enough to poll every second."""
        if not self._storage.exists():
            raise GalleryError(f"there is no gallery in {self.address} any more")
        with self._storage.reading():
            return int(self._table.dataset.latest_version)

    def refresh(self) -> None:
        """Open the version that was committed last."""
        self._table = ImageTable.open(self._storage)
        self._former, self._planner = self._planner or self._former, None

    def reopen(self) -> Gallery:
        """Return a new `Gallery` with the latest version; this one does not change. They share memory."""
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
        """The paths of all images, ordered by id."""
        return list(self._table.paths)

    @property
    def ids(self) -> list[int]:
        """The ids of all images. An image keeps its id when its file is moved or changed; ids are never reused."""
        return [*map(int, self._table.ids)]

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that `update` scans."""
        return self._table.state.folders

    @property
    def broken(self) -> dict[str, str]:
        """Files that could not be read as images, with the reasons."""
        return {path: file.reason for path, file in self._table.unreadable.items()}

    # --- the model --------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The gallery's model."""
        state = self._table.state
        try:
            return self._model_of(state)
        except GalleryError:
            self.refresh()  # another process may have recalibrated it
            if self._table.state.model == state.model:
                raise
            return self.model

    def _model_of(self, state: State) -> Model:
        if state.model_id not in self._models:
            try:
                self._models = {state.model_id: load_model(self._storage, state)}
            except ModelError as error:
                raise GalleryError(
                    f"{error}; andornot index --repair makes it again where that can be done, and --repair --model "
                    "takes another copy of it"
                ) from None
        return self._models[state.model_id]

    def check_model(self, model: Model) -> None:
        """Raise a GalleryError unless `model` is the gallery's: vectors of different models cannot be compared."""
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
        """Update the gallery from some folders and files; images elsewhere are not changed.

        New and changed images are encoded, moved ones are recognised by their content, and missing ones are removed. A
        folder that had images and is now missing or empty raises an error unless `prune`. `cluster` is a Ray cluster
        that decodes and encodes: "ray://host:port", "local" for this machine, or "auto" for RAY_ADDRESS if it is set,
        else local.
        """
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        chosen = [str(absolute(path)) for path in given]
        return self._index(chosen, prune=prune, cluster=cluster, progress=progress)

    def update(self, *, prune: bool = False, cluster: str | None = None, progress: bool | None = None) -> Summary:
        """Update the gallery from all folders and files that were ever added; see `add`."""
        return self._index(None, prune=prune, cluster=cluster, progress=progress)

    def _index(self, paths: list[str] | None, *, prune: bool, cluster: str | None, progress: bool | None) -> Summary:
        workers = None if cluster is None else Cluster(cluster)
        with open_writer(self._storage) as writer:
            encode = encode_files if workers is None else workers.encoder(writer)
            summary = index_paths(writer, self._model_of(writer.state), paths, encode, prune, progress)
        self.refresh()
        return summary

    def remove(self, names: str | Iterable[str]) -> int:
        """Remove images from the gallery, by path, file name or id, and return how many. The files stay.

        If a file is in one of the gallery's folders, the next `update` adds it again.
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
        """Recalibrate the model on all images of the gallery, from their stored activations."""
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
        """Re-encode images with damaged rows, drop what cannot be read, and return what was done.

        `model` is another copy of the gallery's model, in case that is damaged or lost. Without it, a model that the
        gallery calibrated itself is recalibrated.
        """
        return repair(Storage(address, storage_options), load_copy(model), progress)

    @property
    def needs_recalibration(self) -> bool:
        """Whether the model was calibrated on few images and there are many now."""
        calibrated_on = self._table.state.calibrated_on or 0
        return 0 < calibrated_on < _FEW and len(self) >= _GROWN * calibrated_on

    # --- names and words --------------------------------------------------------------------------------------------

    def define(self, name: str, formula: str | Formula) -> Defined:
        """Define a name for a formula, to be used in other formulas: `define("sunset", "like(s1.jpg, s2.jpg)")`.

        Its images must be in the gallery. They are stored by id, so their files may be moved and the model
        recalibrated. The formula may use words and other definitions. An existing definition is replaced.
        """
        chosen = checked_name(name)
        with open_writer(self._storage) as writer:
            self.refresh()
            kept = self.planner.names.define(chosen, formula)
            writer.save_definitions(self._table.definitions.with_one(kept.name, kept.formula))
        self.refresh()
        return Defined(kept.name, self.definitions[kept.name], kept.hides)

    def rename_definition(self, name: str, new: str) -> None:
        """Rename a definition, also in the definitions that use it."""
        chosen = checked_name(new)
        with open_writer(self._storage) as writer:
            self.refresh()
            known = self._known_definition(name)
            definitions = self._table.definitions
            if definitions.called(chosen) not in (None, known) or self.planner.names.images(chosen):
                raise GalleryError(f'"{chosen}" is in the gallery already: choose another name')
            writer.save_definitions(definitions.renamed(known, chosen))
        self.refresh()

    def _known_definition(self, name: str) -> str:
        known = self._table.definitions.called(name)
        if known is None:
            raise GalleryError(unknown("definition", shortened(name), self._table.definitions))
        return known

    def undefine(self, name: str) -> None:
        """Remove a definition. It must not be used by another one."""
        with open_writer(self._storage) as writer:
            self.refresh()
            definitions, known = self._table.definitions, self._known_definition(name)
            if users := definitions.users_of(known):
                raise GalleryError(f'"{known}" is needed by {listed(users)}: remove that first')
            writer.save_definitions(definitions.without(known))
        self.refresh()

    @property
    def definitions(self) -> dict[str, str]:
        """The readable formula of each definition, by name."""
        stored = self._table.definitions
        return {name: self.planner.names.readable(stored.formula(name)) for name in stored}

    def describe(self, image: StrPath | int) -> list[ShownNoun]:
        """Return the words of an image, most probable first; empty if nothing is likely.

        The image is given by id, path or file name in the gallery, or is another image file. A WordError is raised if
        the model has no words, or if the gallery was indexed by a version without words.
        """
        return self.planner.encoder.describe(self._one(image))

    def words(self, beginning: str = "") -> dict[str, int]:
        """Return the words with a prefix and the number of images that show each, most frequent first."""
        return self.planner.words.complete(beginning)

    def duplicates(self) -> list[list[DuplicateImage]]:
        """Return groups of exact and near copies; the largest group first, the copied image first in each."""
        return self.planner.duplicates()

    def _one(self, image: StrPath | int) -> Binding:
        return next(iter(self.resolve(f"image:{write_name(str(image))}").named.values()))

    # --- searching --------------------------------------------------------------------------------------------------

    @overload
    def search(self, formula: QueryLike, *how: Any, **more: Any) -> Hits: ...
    @overload
    def search(self, formula: Iterable[QueryLike], *how: Any, **more: Any) -> list[Hits]: ...
    def search(
        self,
        formula: QueryLike | Iterable[QueryLike],
        top: int = SearchOptions.top,
        score: str | Score | Distance = SearchOptions.score,
        *,
        options: SearchOptions | None = None,
        images: Mapping[str, Representation] | None = None,
        **more: Any,
    ) -> Hits | list[Hits]:
        """Return the hits of a formula, best first; for a list of formulas, a list with the hits of each.

        Plain text is read as a formula, e.g. `dog without person` as `dog and not person`; `Hits.understood` is the
        result. The path or id of an image and a `Representation` are formulas too. A formula that leaves nothing to
        search for, such as `a - a`, raises an EmptyQueryError. docs/gallery.md explains names; `Hits.notes` lists the
        phrases that are approximate. `more` are other fields of `SearchOptions`; alternatively, pass `options`.
        `images` maps names to representations outside the gallery; then paths are not resolved, and a name is an id, a
        file name or one of these.
        """
        if options is None:
            options = SearchOptions(top, score, **more)
        elif more or (top, score) != (SearchOptions.top, SearchOptions.score):
            raise TypeError("search takes options, or each of them by its name, and not both")
        given = several_queries(formula)
        asked = [as_query(one) for one in ([formula] if given is None else given)]
        queries = [self.resolve(one, images) if isinstance(one, str | Formula) else one for one in asked]
        found = self.planner.search(queries, options, images or {})
        results = [
            Hits(hits, query.notes, query.understood) if isinstance(query, BoundFormula) else Hits(hits)
            for query, hits in zip(queries, found, strict=True)
        ]
        return results[0] if given is None else results

    def resolve(self, formula: str | Formula, images: Collection[str] | None = None) -> BoundFormula:
        """Bind the names of a formula or of plain text; the result is a query of this version.

        `images` are names of images outside the gallery, as for `search`.
        """
        return self.planner.names.resolve(formula, images)

    def represent(self, names: Iterable[StrPath | int]) -> Representation:
        """Return the representations `(n, N, M)` of images given by id, path or file name, or of other image files."""
        formulas = [Formula(write_name(name if isinstance(name, str) else str(name))) for name in names]
        return self.planner.encoder.represent([thing for one in formulas for thing in self.resolve(one).named.values()])

    @property
    def planner(self) -> Planner:
        """The planner of searches in this version, for programs that need more than `search`."""
        if self._planner is None:
            model = self.model  # may refresh
            if self._table.state.calibrated_on == 0:
                raise GalleryError(
                    f"the first index of {self.address} was not finished: rerun andornot index to resume it"
                )
            if self._former is not None:
                shards = self._former.shards.for_version(self._table, model)
            elif self._cluster is None:
                shards = Shard(self._table, model)
            else:
                shards = RayShards.open(self._cluster[0], self._table, self._cluster[1])
            self._planner = Planner(self._table, model, shards)
            self._former = None
        return self._planner
