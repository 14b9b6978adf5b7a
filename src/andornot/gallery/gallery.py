"""`Gallery`: a folder of pictures that can be searched with formulas."""

import copy
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, overload

import numpy as np

from ..data.sources.folder import gallery_around
from ..errors import unknown
from ..logic import Formula, Representation
from ..logic.distance import Distance, Score
from ..logic.formula import write_name
from ..model import Model, ModelError, new_backbone
from ..notebook import MOST_TILES
from ..ssl.calibration import CalibratedHead
from ..ssl.recipe import Recipe, load_recipe
from ..words import Shown
from ..words.errors import shortened
from . import database
from .basis import Basis
from .browsing import Browser
from .cluster import Cluster
from .completing import Completer, Completions
from .database import Snapshot, State
from .definitions import Defined, checked_name, listed, readable
from .encoding import encode_files
from .engines import MakeEngine, engine_named
from .errors import GalleryError, LockedError
from .hits import Hits, show_pictures
from .indexing import Indexing, Summary
from .layout import DATABASE, DERIVED, IDENTITY, StateToken, exists, state_token
from .lock import HOLDER, LOCK, writing
from .names import Named, Names, Resolved
from .options import CENTRED, SEARCH_SCORES, SearchOptions, check_choice
from .paths import StrPath, absolute, is_inside
from .regions import Regions, StoredClasses, lacking_rows, read_all
from .repairing import Repaired, repair
from .scope import look_through
from .searching import Query, Searcher
from .vectors import Sources
from .word_index import WordIndex
from .writer import MODEL_NAME, Writer, free_model_name, open_writer

# What is searched for: a formula, the path or the id of a picture, a representation.
Asking = StrPath | Formula | Resolved | int | np.integer[Any] | Representation

# A model that was calibrated on fewer pictures than this gets better when the gallery has become ten times as large.
_FEW: Final = 200
_GROWN: Final = 10
# What a `create` that was killed leaves. Models of any name are left alone by the next one: they may be somebody's.
_LEFT: Final = (LOCK, HOLDER, f"{DATABASE}.partial", f"{DATABASE}.partial-journal", IDENTITY)


class Gallery:
    """Pictures on disk with their features: `open`, `create`, `add`, `update`, `remove`, `search`.

    An opened gallery is a snapshot: what others write is seen after `refresh`. One process writes at a time; any
    number may read meanwhile.
    """

    def __init__(self, folder: Path, engine: str | MakeEngine = "auto") -> None:
        self.folder = folder
        self._make_engine = _made_by(engine)
        self._models: dict[str, Model] = {}
        self._may_derive = True
        self.refresh()

    @classmethod
    def open(cls, folder: StrPath, *, engine: str | MakeEngine = "auto") -> "Gallery":
        """Opens what `create` or `andornot index` made. `engine` says what finds the nearest pictures.

        "milvus://host:port/collection" opens what `index` has put there, to search without the folder.
        """
        if isinstance(folder, str) and folder.startswith("milvus:"):
            engine_named(folder)  # which says what is wrong with the address, and what is not installed
            from .milvus_gallery import MilvusGallery

            return MilvusGallery(folder)
        return cls(absolute(folder), engine)

    @classmethod
    def create(
        cls,
        folder: StrPath,
        model: Model | StrPath | None = None,
        *,
        recipe: Recipe | None = None,
        engine: str | MakeEngine = "auto",
    ) -> "Gallery":
        """Makes an empty gallery, with a copy of the model in it.

        Without a model the gallery makes its own, calibrated on the first pictures that are added; `recipe` says how
        (default: `photos`).
        """
        path, make_engine = absolute(folder), _made_by(engine)
        if exists(path):
            raise GalleryError(f"{path} holds a gallery already; Gallery.open opens it")
        if path.is_dir() and (others := [child.name for child in path.iterdir() if not _may_be_left(child.name)]):
            raise GalleryError(f"{path} is not empty, and no gallery ({min(others)} is in it): give a new folder")
        own = model is None
        chosen = own_model(recipe or load_recipe("photos")) if model is None else _loaded(model)
        path.mkdir(parents=True, exist_ok=True)
        with writing(path):
            name = free_model_name(path)
            chosen.save(path / name)
            state = State(name, chosen.id, chosen.backbone.width, calibrated_on=0 if own else None)
            database.create(path, state)
        return cls(path, make_engine)

    @staticmethod
    def exists(folder: StrPath) -> bool:
        """Whether a gallery is there."""
        return exists(absolute(folder))

    def state_token(self) -> StateToken:
        """What is another value whenever somebody has written the gallery since; quick enough to ask every second."""
        return state_token(self.folder)

    def cache_folder(self, name: str) -> Path:
        """Where something that is made of the gallery may be kept; anybody may delete it at any time."""
        return self.folder / DERIVED / name

    def refresh(self) -> None:
        """Takes what was committed since."""
        earlier: Snapshot | None = getattr(self, "_snapshot", None)
        self._snapshot, self._features, self._beside = read_all(self.folder)
        if earlier is not None:
            self._snapshot.follow(earlier)
        self._searcher: Searcher | None = None
        self._opened_regions: tuple[Regions | None, StoredClasses | None] | None = None

    def refreshed(self) -> "Gallery":
        """Another `Gallery` with what was committed since, for who still reads this one; they share the model.

        Its searches write nothing, not even what makes the next ones faster: a server that follows a gallery must not
        be in the way of who writes it.
        """
        fresh = copy.copy(self)
        fresh._may_derive = False
        fresh.refresh()
        return fresh

    def __len__(self) -> int:
        return len(self._snapshot)

    def __repr__(self) -> str:
        return f"Gallery({len(self):,} pictures in {self.folder})"

    def _repr_html_(self) -> str:
        first = [self._snapshot.picture(position) for position in range(min(len(self), MOST_TILES + 1))]
        broken = f"{len(self.broken):,} more could not be read" if self.broken else ""
        return show_pictures(repr(self), [(picture.path, f"#{picture.id}") for picture in first], broken)

    @property
    def paths(self) -> list[str]:
        """The paths of all pictures, in the order of their ids."""
        return list(self._snapshot.paths)

    @property
    def ids(self) -> list[int]:
        """The ids of all pictures. A picture keeps its own when its file is moved or changed; none is used again."""
        return [*map(int, self._snapshot.ids)]

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that `update` looks through."""
        return self._snapshot.folders

    @property
    def broken(self) -> dict[str, str]:
        """Files that could not be read as pictures, with the reasons."""
        return {path: entry.reason for path, entry in self._snapshot.broken.items()}

    @property
    def model(self) -> Model:
        """The gallery's model."""
        state = self._snapshot.state
        try:
            return self._model_of(state)
        except GalleryError:
            self.refresh()  # calibrated anew by another process, perhaps
            if self._snapshot.state.model == state.model:
                raise
            return self.model

    def _model_of(self, state: State) -> Model:
        if state.model_id not in self._models:
            try:
                model = Model.load(self.folder / state.model)
                if model.id != state.model_id:
                    raise ModelError(f"{self.folder / state.model} is not the model that the gallery was made with")
            except ModelError as error:
                raise GalleryError(
                    f"{error}; andornot index --repair makes it again where that can be done, and --repair --model "
                    "takes another copy of it"
                ) from None
            self._models = {state.model_id: model}
        return self._models[state.model_id]

    def check_model(self, model: Model) -> None:
        """A GalleryError unless it is the gallery's own: vectors of different models cannot be compared."""
        if model.id != self._snapshot.state.model_id:
            raise GalleryError(
                f"{self.folder} was made with model {self._snapshot.state.model_id}, and this one is {model.id}: "
                "leave --model out, or make another gallery"
            )

    # --- writing ----------------------------------------------------------------------------------------------------

    def add(
        self,
        paths: StrPath | Iterable[StrPath],
        *,
        prune: bool = False,
        regions: bool = False,
        cluster: str | None = None,
        progress: bool | None = None,
    ) -> Summary:
        """Brings the gallery up to date with some folders and files, which are looked at now, and the others not.

        New pictures are encoded, changed ones again, moved ones are recognised by their content, and those that are
        gone are dropped. A folder that is missing or empty, though it had pictures, is an error unless `prune`.
        `regions`: pictures of those folders without regions and classes (`without_regions`) are encoded once more.
        `cluster`: a Ray cluster that decodes and encodes, "ray://host:port", "local" for one of this machine's
        processors, or "auto": the one of RAY_ADDRESS, or else local.
        """
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        return self._bring_up_to_date([str(absolute(path)) for path in given], prune, regions, cluster, progress)

    def update(
        self,
        *,
        prune: bool = False,
        regions: bool = False,
        cluster: str | None = None,
        progress: bool | None = None,
    ) -> Summary:
        """The same for every folder and file that was ever added."""
        return self._bring_up_to_date(None, prune, regions, cluster, progress)

    @property
    def without_regions(self) -> int:
        """How many pictures have no regions or no classes, though the model can give them.

        They were indexed by an earlier version; `update(regions=True)` looks at these once more.
        """
        model = self.model  # which may refresh
        return len(lacking_rows(self._snapshot, self._beside, model, thorough=False))

    def remove(self, names: str | Iterable[str]) -> int:
        """Takes pictures out of the gallery, by path, file name or id; how many. The files stay where they are.

        As long as a file is in one of the gallery's folders, the next `update` adds it again.
        """
        with open_writer(self.folder) as writer:
            finder = Names(writer.snapshot)
            chosen: set[int] = set()
            for name in [names] if isinstance(names, str) else names:
                pictures = finder.pictures(str(name))
                if len(pictures) != 1:
                    found = f"{len(pictures)} pictures are" if pictures else "no picture is"
                    raise GalleryError(f'{found} called "{name}" in {self.folder}')
                chosen.add(pictures[0].id)
            for identity in chosen:
                writer.database.remove(identity)
            writer.commit()
        self.refresh()
        return len(chosen)

    def recalibrate(self) -> None:
        """Calibrates the model anew on all pictures of the gallery. No picture is read: their features are stored."""
        with open_writer(self.folder) as writer:
            writer.calibrate(self._model_of(writer.state))
            self._prepare_again()

    @classmethod
    def repair(
        cls,
        folder: StrPath,
        model: Model | StrPath | None = None,
        *,
        recalibrate: bool = False,
        progress: bool | None = None,
    ) -> Repaired:
        """Drops what is damaged, encodes those pictures anew whose files are there, and says what it did.

        `model` is another copy of the gallery's, for one that is damaged or lost. Without it a model that the gallery
        calibrated for itself is calibrated anew on the features, which are stored; one that was given if `recalibrate`.
        """
        return repair(absolute(folder), None if model is None else _loaded(model), recalibrate, progress)

    @property
    def would_gain_by_recalibration(self) -> bool:
        """Whether the model was calibrated on few pictures, and there are many now."""
        calibrated_on = self._snapshot.state.calibrated_on or 0
        return 0 < calibrated_on < _FEW and len(self) >= _GROWN * calibrated_on

    def _bring_up_to_date(
        self, paths: list[str] | None, prune: bool, regions: bool, cluster: str | None, progress: bool | None
    ) -> Summary:
        encode = encode_files if cluster is None else Cluster(cluster).encode
        with open_writer(self.folder) as writer:
            snapshot = writer.snapshot
            if paths is None:
                loose = (p for p in snapshot.paths if not any(is_inside(p, folder) for folder in snapshot.folders))
                paths = [*snapshot.folders, *loose]
            scope = look_through(paths, snapshot.paths, prune)
            self._remember_folders(writer, scope.folders, prune)
            model = self._model_of(writer.state)
            lacking = writer.lacking(model) if regions else ()
            summary = Indexing(writer, model, scope, lacking=lacking, encode=encode).run(progress)
            _finish(writer, model, summary)
            self._prepare_again()
        return summary

    def prepare(self, score: str = CENTRED) -> None:
        """Makes searches by a score as fast as the engine can.

        `add`, `update` and `recalibrate` do so for centred ones, for degrees, and for whatever was prepared before.
        """
        check_choice("score", score, SEARCH_SCORES)
        with writing(self.folder):
            self.refresh()
            self._searching.prepare(score)

    def _prepare_again(self) -> None:
        """Takes what was committed, and prepares it. Only for who holds the lock."""
        self.refresh()
        for score in self._searching.kept_scores:
            self._searching.prepare(score)
        if (postings := self._searching.word_truths.postings) is not None:
            with suppress(OSError):  # all works without, but slower
                postings.extend()

    def _remember_folders(self, writer: Writer, folders: Iterable[str], prune: bool) -> None:
        known = set(writer.state.folders)
        for folder in folders:
            if os.path.isdir(folder) and gallery_around(os.path.realpath(folder)) is None:  # noqa: PTH112
                known.add(folder)
            elif prune:
                known.discard(folder)
        writer.state = replace(writer.state, folders=tuple(sorted(known)))

    def derive(self) -> None:
        """Writes the degrees of all pictures where they are missing, if this process may; else searches are slower."""
        if self._snapshot.state.calibrated_on == 0:
            return
        for vectors in (self._searching.degrees, self._searching.centred):
            if vectors.rows < self._snapshot.state.rows:
                with suppress(LockedError, OSError), writing(self.folder):
                    vectors.extend()
        postings = self._searching.word_truths.postings
        if postings is not None and not postings.is_complete:
            with suppress(LockedError, OSError), writing(self.folder):
                postings.extend()
        if self._snapshot.state.edition and not self._snapshot.catalogue.file:
            with suppress(LockedError, OSError), writing(self.folder):
                database.keep_catalogue(self.folder, self._snapshot)

    # --- names and words --------------------------------------------------------------------------------------------

    def define(self, name: str, formula: str | Formula) -> Defined:
        """Gives a formula a name, which stands for it in other formulas: `define("sunset", "like(s1.jpg, s2.jpg)")`.

        Its pictures must be in the gallery. They are meant by their ids: their files may be moved, and the model
        calibrated anew. It may use words and other definitions. A name that was defined before gets another meaning.
        """
        asked, chosen = formula if isinstance(formula, Formula) else Formula(formula), checked_name(name)
        with open_writer(self.folder) as writer:
            self.refresh()
            kept = self._searching.define(chosen, asked)
            writer.database.define(kept.name, kept.formula)
            writer.commit()
        self.refresh()
        return Defined(kept.name, self.definitions[kept.name], kept.hides)

    def undefine(self, name: str) -> None:
        """Forgets a definition that no other one needs."""
        with open_writer(self.folder) as writer:
            self.refresh()
            definitions = self._snapshot.definitions
            known = definitions.called(name)
            if known is None:
                raise GalleryError(unknown("definition", shortened(name), definitions))
            if users := definitions.users_of(known):
                raise GalleryError(f'"{known}" is needed by {listed(users)}: remove that first')
            writer.database.undefine(known)
            writer.commit()
        self.refresh()

    @property
    def definitions(self) -> dict[str, str]:
        """The formula of each name that was defined, with pictures as people name them."""
        definitions = self._snapshot.definitions
        if not list(definitions):
            return {}
        browser = self.browse()
        return {name: readable(definitions.formula(name), browser) for name in definitions}

    def describe(self, picture: StrPath | int) -> list[Shown]:
        """What a picture shows, in few words that are likely, the likeliest first; nothing where nothing is likely.

        The picture is one of the gallery by id, path or file name, or a picture file. A gallery whose model has no
        words, or that was indexed before there were words, is a WordError.
        """
        return self._searching.looker.describe(self._one(picture))

    def words(self, beginning: str = "") -> dict[str, int]:
        """The words that begin so, with how many pictures show each: those that most show first."""
        return self._searching.word_truths.complete(beginning)

    @property
    def word_index(self) -> WordIndex:
        """The words that can be asked for, if there are any, and those that tell most of this gallery."""
        return self._searching.word_truths.index

    def complete(
        self, text: str, cursor: int, limit: int = 8, with_files: bool = True, browser: Browser | None = None
    ) -> Completions:
        """What could stand at a place of a formula that is being typed; `browser` is what `browse` gave before."""
        completer = Completer(browser or self.browse(), self.word_index, self._defined_names)
        return completer.complete(text, cursor, limit, with_files)

    @property
    def _defined_names(self) -> tuple[str, ...]:
        return tuple(self._snapshot.definitions)

    def tags(self, identity: int) -> list[Shown]:
        """What a picture shows, in few words, by what is kept of it: none where nothing is, or nothing is likely."""
        return self._searching.looker.tags(identity)

    def _one(self, picture: StrPath | int) -> Named:
        name = os.fspath(picture) if isinstance(picture, os.PathLike) else str(picture)
        return next(iter(self.named(f"picture:{write_name(name)}").values()))

    # --- searching --------------------------------------------------------------------------------------------------

    @overload
    def search(
        self,
        formula: Asking,
        top: int = ...,
        score: str | Score | Distance = ...,
        *,
        options: SearchOptions | None = ...,
        pictures: Mapping[str, Representation] | None = ...,
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
        pictures: Mapping[str, Representation] | None = ...,
        **more: Any,
    ) -> list[Hits]: ...
    def search(
        self,
        formula: Asking | Iterable[Asking],
        top: int = SearchOptions.top,
        score: str | Score | Distance = SearchOptions.score,
        *,
        options: SearchOptions | None = None,
        pictures: Mapping[str, Representation] | None = None,
        **more: Any,
    ) -> Hits | list[Hits]:
        """The pictures nearest to a formula, nearest first; for a list of formulas a list for each.

        The path or the id of a picture, and a `Representation`, serve as a formula. One that leaves nothing to look
        for, such as `a - a`, is an EmptyQueryError. A name in a formula is a picture of the gallery, by id, path, end
        of a path or file name; or else a name that was defined; or a word, which is what those pictures of the gallery
        share that show it best; or a picture file, which is encoded. Pictures that a formula names are no hits of it,
        unless `include_queries`. `more` is whatever `SearchOptions` has beside `top` and `score`; or `options` says
        all of it. `pictures` says what names outside the gallery stand for; then no path is looked at, and a name is an
        id, a file name or one of these.
        """
        if options is None:
            options = SearchOptions(top, score, **more)
        elif more or (top, score) != (SearchOptions.top, SearchOptions.score):
            raise TypeError("search takes options, or each of them by its name, and not both")
        given = _several(formula)
        asked = [_query(one) for one in ([formula] if given is None else given)]
        if self._may_derive:
            self.derive()
        queries = [self.resolve(one, pictures) if isinstance(one, Formula) else one for one in asked]
        results = [Hits(hits) for hits in self._searching.search(queries, options, pictures or {})]
        return results[0] if given is None else results

    def resolve(self, formula: str | Formula, pictures: Collection[str] | None = None) -> Resolved:
        """A formula with what its names stand for: a query that is not read again, as long as nothing is refreshed.

        `pictures` are the names of pictures outside, as for `search`.
        """
        return self._searching.resolve(formula if isinstance(formula, Formula) else Formula(formula), pictures)

    def named(self, formula: str | Formula, pictures: Collection[str] | None = None) -> dict[str, Named]:
        """What each name of a formula stands for."""
        return self.resolve(formula, pictures).named

    def represent(self, names: Iterable[StrPath | int]) -> Representation:
        """The representations `(n, N, M)` of pictures by id, path or file name, or of picture files elsewhere."""
        formulas = [Formula(write_name(name if isinstance(name, str) else str(name))) for name in names]
        return self._searching.looker.represent([thing for one in formulas for thing in self.named(one).values()])

    def near_copies(self, ids: Sequence[int]) -> list[int | None]:
        """For each picture of a list the first earlier one that it nearly equals; None for most."""
        return self._searching.near_copies(ids)

    def browse(self) -> Browser:
        """The gallery as it is in this snapshot, to look around in; a later `refresh` does not change it."""
        return self._searching.browse()

    @property
    def _regions(self) -> Regions | None:
        """The regions of this snapshot; None where the model has none, or no picture has any."""
        return self._seen_in_pictures[0]

    @property
    def _kept_classes(self) -> StoredClasses | None:
        """The classes seen in the pictures of this snapshot; None where the model has none, or no picture has any."""
        return self._seen_in_pictures[1]

    @property
    def _seen_in_pictures(self) -> tuple[Regions | None, StoredClasses | None]:
        if self._opened_regions is None:
            model = self.model  # which may refresh
            snapshot, (of_regions, of_classes) = self._snapshot, self._beside
            state, regions, classes = snapshot.state, None, None
            if of_regions is not None and of_regions.is_begun:
                basis = Basis.load(self.folder / state.basis, state.basis_id, model) if state.basis else None
                if basis is not None or not state.basis:
                    regions = Regions(snapshot, self._features, of_regions, model, basis)
            if of_classes.is_begun:
                classes = StoredClasses(snapshot, of_classes)
            self._opened_regions = regions, classes
        return self._opened_regions

    @property
    def _searching(self) -> Searcher:
        if self._searcher is None:
            model = self.model  # which may refresh
            if self._snapshot.state.calibrated_on == 0:
                raise GalleryError(f"the first index of {self.folder} was not finished: andornot index goes on with it")
            sources = Sources(self.folder, self._snapshot, self._features, model)
            self._searcher = Searcher(sources, self._make_engine, self._regions, self._kept_classes)
        return self._searcher


def _finish(writer: Writer, model: Model, summary: Summary) -> None:
    """What follows when all files were looked at: the first calibration, and an end of rows that nobody uses."""
    if writer.state.calibrated_on == 0:
        if not writer.state.pictures:
            path, reason = next(iter(summary.broken.items()), ("nothing", "there is no picture"))
            raise GalleryError(f"none of the {len(summary.broken):,} pictures can be read; {path}: {reason}")
        writer.calibrate(model)
    writer.compact()


def _may_be_left(name: str) -> bool:
    return name in _LEFT or MODEL_NAME.fullmatch(name) is not None


def _made_by(engine: str | MakeEngine) -> MakeEngine:
    return engine_named(engine) if isinstance(engine, str) else engine


def _several(formula: Asking | Iterable[Asking]) -> Iterable[Asking] | None:
    """The formulas of a list, a batch of representations included; None for a single one."""
    if isinstance(formula, Representation):
        return formula if formula.batch_shape else None
    return formula if isinstance(formula, Iterable) and not isinstance(formula, str | bytes) else None


def _query(asking: object) -> Formula | Query:
    if isinstance(asking, Formula | Resolved | Representation):
        return asking
    if isinstance(asking, os.PathLike):
        return Formula(write_name(os.fspath(asking)))
    if isinstance(asking, str | int | np.integer):
        return Formula(str(asking))
    raise GalleryError(f"a query is a formula, a path, an id or a Representation, got {type(asking).__name__}")


def own_model(recipe: Recipe) -> Model:
    """A model whose backbone is ready, and whose head is not calibrated yet."""
    if recipe.regime != "calibrated":
        raise GalleryError(f"a gallery makes calibrated models only; this recipe says {recipe.regime}: train one first")
    backbone = new_backbone(recipe, channels=3)
    return Model(backbone, CalibratedHead(backbone.width, recipe.num_values, recipe.calibration), recipe)


def _loaded(model: Model | StrPath) -> Model:
    return model if isinstance(model, Model) else Model.load(model)
