"""A gallery that is searched where Milvus has it: without its folder, and with nothing in memory but its model."""

import copy
import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import numpy as np
from torch import Tensor

from ..data.cache import default_cache_folder
from ..logic import Formula, Representation
from ..logic.formula import write_name
from ..model import Model
from ..words import Shown
from .browsing import Browser, FeatureTable, Order
from .conditions import ConditionSearch, Term, suits_nothing
from .engines import Engine
from .engines.milvus import SearchedMilvus
from .engines.milvus_about import About
from .engines.milvus_connection import Address, Connection
from .engines.milvus_records import (
    MOST_AT_ONCE,
    Facts,
    MilvusCentred,
    MilvusCentredVectors,
    MilvusRecords,
    MilvusSources,
    MilvusVectors,
    expression_of,
)
from .errors import GalleryError, NeedsFolderError
from .filters import Selection, resolve
from .gallery import Gallery
from .hits import Hit
from .looking import Looker
from .name_index import NameIndex
from .names import Names, Resolved
from .options import CENTRED, SearchOptions, Where
from .paths import label_of
from .reasons import Reasons
from .records import Entry, Origin, Picture, as_date
from .searching import Searcher
from .vectors import Vectors
from .word_index import NO_WORDS

_WORDS: Final = "words need what is kept beside the features, in the gallery's folder: ask the gallery there"
_WHY: Final = "why looks at all pictures, which are in Milvus: ask the gallery in its folder"


class MilvusGallery(Gallery):
    """What `Gallery.open("milvus://host:port/collection")` gives: searches, and nothing is written through it."""

    def __init__(self, address: str) -> None:
        self._address = Address.parse(address)
        self._server = Connection(self._address)
        self.folder = Path(self._address.collection)
        self._models: dict[str, Model] = {}
        self._may_derive = False
        self.refresh()

    def refresh(self) -> None:
        """Takes what was indexed since."""
        self._facts = Facts(About(self._server, self._address.collection))
        self._records = MilvusRecords(self._server, self._address.collection, self._facts)
        self._searcher = None

    def refreshed(self) -> "Gallery":
        """As `Gallery.refreshed`."""
        fresh = copy.copy(self)
        fresh.refresh()
        return fresh

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"Gallery({len(self):,} pictures in {self._address})"

    def _repr_html_(self) -> str:
        return repr(self)

    def state_token(self) -> Any:
        """As `Gallery.state_token`."""
        return Facts(About(self._server, self._address.collection)).token

    def cache_folder(self, name: str) -> Path:
        """As `Gallery.cache_folder`; of this user."""
        key = hashlib.sha256(str(self._address).encode()).hexdigest()[:16]
        return default_cache_folder() / "milvus" / key / name

    @property
    def paths(self) -> list[str]:
        """Not to be had: there may be any number."""
        self._refuse("lists all paths")

    @property
    def ids(self) -> list[int]:
        """Not to be had: there may be any number."""
        self._refuse("lists all ids")

    @property
    def folders(self) -> tuple[str, ...]:
        """As `Gallery.folders`."""
        return self._records.folders

    @property
    def broken(self) -> dict[str, str]:
        """As `Gallery.broken`."""
        return {path: entry.reason for path, entry in self._records.broken.items()}

    @property
    def would_gain_by_recalibration(self) -> bool:
        """Who indexes it is told that."""
        return False

    @property
    def model(self) -> Model:
        """The gallery's model, read once."""
        name = self._facts.values["model"]
        if name not in self._models:
            self._models = {name: self._facts.model()}
        return self._models[name]

    def check_model(self, model: Model) -> None:
        """As `Gallery.check_model`."""
        if model.id != self._facts.values["model"]:
            raise GalleryError(f"{self._address} was made with another model")

    def add(self, *_: Any, **__: Any) -> NoReturn:
        """Not through Milvus; nor the next ones."""
        self._refuse("adds pictures")

    def update(self, *_: Any, **__: Any) -> NoReturn:  # noqa: D102
        self._refuse("brings it up to date")

    def remove(self, names: str | Iterable[str]) -> NoReturn:  # noqa: ARG002, D102
        self._refuse("removes pictures")

    def recalibrate(self) -> NoReturn:  # noqa: D102
        self._refuse("calibrates")

    def define(self, *_: Any) -> NoReturn:  # noqa: D102
        self._refuse("defines names")

    def undefine(self, name: str) -> NoReturn:  # noqa: ARG002, D102
        self._refuse("forgets names")

    @property
    def definitions(self) -> dict[str, str]:
        """None: they are in the gallery's folder."""
        return {}

    @property
    def _defined_names(self) -> tuple[str, ...]:
        return ()

    def prepare(self, score: str = CENTRED) -> NoReturn:  # noqa: ARG002, D102
        self._refuse("prepares scores")

    def derive(self) -> None:
        """Nothing is derived: all is there."""

    def _refuse(self, what: str) -> NoReturn:
        raise GalleryError(
            f"{self._address} can only be searched: the gallery in its folder {what} (andornot index --gallery FOLDER "
            f"--engine {self._address})"
        )

    @property
    def _searching(self) -> Searcher:
        if self._searcher is None:
            self._searcher = _Searcher(
                self._address, self._server, MilvusSources(self._records, self.model), self._facts
            )
        return self._searcher


class _Selection(Selection):
    """The pictures that pass a filter."""

    snapshot: Any

    def __init__(self, records: MilvusRecords, where: Where | None) -> None:
        self.where, self.snapshot = where, records
        self._records = records
        self._expression = "" if where is None else expression_of(resolve(where, records))

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return self._records.count(self._expression)

    @cached_property
    def rows(self) -> np.ndarray:
        """Their ids, which ascend."""
        if self._count > MOST_AT_ONCE:
            raise GalleryError(
                f"Milvus finds fewer than were asked for, and more than {MOST_AT_ONCE:,} pictures pass: ask for fewer, "
                "or narrow the filter"
            )
        return self._records.ids(self._expression)


class _Everything(_Selection):
    """All pictures. Their rows are those of a sample, which is all that truths look at."""

    def __init__(self, records: MilvusRecords, centred: MilvusCentred) -> None:
        super().__init__(records, None)
        self._centred = centred

    @property
    def rows(self) -> np.ndarray:
        """Those of the sample."""
        return self._centred.sample


class _Engine(SearchedMilvus):
    """What finds pictures."""

    def _compare(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        records: Any = self._snapshot
        return self._exact.search(queries, top, _Selection(records, selection.where))


class _ConditionSearch(ConditionSearch):
    """As any other, with fewer candidates: the components of each are fetched."""

    exact_up_to = candidates = 2000

    def _candidates(self, formula: Formula, terms: Sequence[Term], logic: str, selection: Selection) -> np.ndarray:
        if len(selection) > MOST_AT_ONCE and suits_nothing(formula, logic):
            raise NeedsFolderError(
                f"{formula.text} is true of pictures that are like nothing in it, and Milvus lists no more than "
                f"{MOST_AT_ONCE:,}: add what they should show, narrow the filter, or ask the gallery in its folder"
            )
        return super()._candidates(formula, terms, logic, selection)


class _NoWords:
    """As `WordTruths`, of pictures of which nothing is kept that words need."""

    index = NO_WORDS

    def complete(self, beginning: str) -> NoReturn:  # noqa: ARG002
        """Not to be had."""
        raise NeedsFolderError(_WORDS)

    def describe(self, rows: np.ndarray) -> list[list[Shown]]:
        """Nothing is known."""
        return [[]] * len(rows)


class _Looker(Looker):
    """As any other, without words."""

    def __init__(self, sources: MilvusSources) -> None:
        self._sources, self._records = sources, sources.snapshot

    def describe(self, thing: object) -> NoReturn:  # noqa: ARG002
        """Not to be had: words need what is kept beside the features."""
        raise NeedsFolderError(_WORDS)

    def tags(self, identity: int) -> list[Shown]:  # noqa: ARG002
        """None."""
        return []


class _Reasons(Reasons):
    """None can be told."""

    def __init__(self) -> None: ...

    def why(self, *_: object) -> NoReturn:
        """Not to be had: it looks at all pictures."""
        raise NeedsFolderError(_WHY)


class _Searcher(Searcher):
    """As any other; vectors and records are asked for."""

    def __init__(self, address: Address, server: Connection, sources: MilvusSources, facts: Facts) -> None:
        self._address, self._server, self._facts = address, server, facts
        self._sources = sources
        self._records: Any = sources.snapshot
        self._names = Names(self._records)
        self._regions = None
        self._degrees: Any = MilvusVectors(sources, "degrees")
        self.centred: Any = MilvusCentred(server, address.collection, facts, sources.model)
        self._engines = {}
        self._everything = _Everything(self._records, self.centred)
        self.word_truths: Any = _NoWords()
        self.looker = _Looker(sources)
        self.reasons = _Reasons()

    def browse(self) -> Browser:
        """The same state, to look around in."""
        return _Browser(cast(MilvusSources, self._sources), self._facts)

    def _select(self, where: Where | None) -> Selection:
        return _Selection(self._records, where)

    def _engine(self, score: str) -> tuple[Vectors, Engine]:
        if score not in self._engines:
            sources: Any = self._sources
            vectors: Any = (
                MilvusCentredVectors(sources, self.centred) if score == CENTRED else MilvusVectors(sources, score)
            )
            self._engines[score] = vectors, _Engine(self._address, self._server, vectors)
        return self._engines[score]

    def _own_engine(self, score: object, dimensions: int) -> NoReturn:  # noqa: ARG002
        raise NeedsFolderError("a score of your own compares with all pictures: ask the gallery in its folder")

    @property
    def _conditions(self) -> ConditionSearch:
        return _ConditionSearch(self.centred, self._engine(CENTRED)[1], self._everything)

    def _search_condition(
        self, query: Resolved, options: SearchOptions, selection: Selection, looked: Any
    ) -> list[Hit]:
        # The rows of `_Everything` are a sample; here all pictures are meant.
        return super()._search_condition(query, options, self._select(selection.where), looked)

    def _kept(self, rows: np.ndarray, left_out: set[int], top: int) -> list[int]:
        kept = super()._kept(rows, left_out, top)
        self._records.entries(rows[kept].tolist())  # all at once, and not one by one
        return kept

    def _nearest(self, queries: Any, wholes: Tensor, score: Any, top: int, selection: Selection) -> Any:
        if not isinstance(score, str):
            self._own_engine(score, 0)
        return super()._nearest(queries, wholes, score, top, selection)


class _Listing:
    """The ids that pass a filter, read as far as they are looked at."""

    def __init__(self, records: MilvusRecords, expression: str) -> None:
        self._records, self._expression = records, expression

    def __len__(self) -> int:
        return self._records.count(self._expression)

    def __getitem__(self, part: slice) -> np.ndarray:
        stop = len(self) if part.stop is None else part.stop
        if stop > MOST_AT_ONCE:
            raise GalleryError(f"Milvus lists the first {MOST_AT_ONCE:,} pictures: narrow it with a filter")
        return self._records.ids(self._expression, MOST_AT_ONCE)[part]


class _Mask:
    """How many pass a filter is all that is asked of it."""

    def __init__(self, listing: _Listing) -> None:
        self._listing = listing

    def sum(self) -> int:
        return len(self._listing)


class _Browser(Browser):
    """To look around in what Milvus has. A position is an id."""

    def __init__(self, sources: MilvusSources, facts: Facts) -> None:
        self._sources: Any = sources
        self._records, self._facts = sources.snapshot, facts
        self._snapshot: Any = sources.snapshot
        self.model = sources.model
        self.mask: Any = lru_cache(4)(lambda where: _Mask(self._listing(where)))

    def __len__(self) -> int:
        return len(self._records)

    @cached_property
    def fingerprint(self) -> str:
        """As `Browser.fingerprint`."""
        return hashlib.blake2b(self._facts.token.encode(), digest_size=8).hexdigest()

    def position_of_id(self, identity: int) -> int | None:
        """As `Browser.position_of_id`."""
        return None if self._records.entry(identity) is None else identity

    @property
    def model_id(self) -> str:
        """As `Browser.model_id`."""
        return str(self._facts.values["model"])

    @property
    def broken(self) -> int:
        """As `Browser.broken`."""
        return len(self._records.broken)

    def id(self, position: int) -> int:
        """It is one."""
        return position

    def picture(self, position: int) -> Picture:
        """As `Browser.picture`."""
        return self._found(position).picture

    def term(self, position: int) -> str:
        """As `Browser.term`."""
        name = self.name(position)
        is_clear = name.isprintable() and not name.isdigit() and len(self._records.called_once(name)) < 2
        return write_name(name) if is_clear else str(position)

    def label(self, position: int) -> str:
        """As `Browser.label`."""
        return label_of(self.path(position))

    def taken(self, position: int) -> datetime:
        """As `Browser.taken`."""
        return self._found(position).taken_at

    def taken_from(self, position: int) -> Origin:
        """As `Browser.taken_from`."""
        return self._found(position).taken_from

    @cached_property
    def name_index(self) -> NameIndex:
        """Empty: there may be any number."""
        return NameIndex([])

    @cached_property
    def period(self) -> tuple[datetime, datetime] | None:
        """As `Browser.period`, as it was when it was indexed."""
        period = self._facts.values["period"]
        return None if period is None else (as_date(period[0]), as_date(period[1]))

    def positions(self, where: Where, order: Order = "id") -> Any:
        """As `Browser.positions`, in the order of ids alone."""
        if order != "id":
            raise GalleryError("Milvus keeps pictures in the order of their ids: no other can be asked for")
        return self._listing(where)

    def represent(self, position: int) -> Representation:
        """As `Browser.represent`."""
        return cast(Representation, self._sources.represent(np.array([position]))[0])

    @cached_property
    def features(self) -> FeatureTable:
        """As `Browser.features`, as they were when it was indexed."""
        table = self._facts.values["features"]
        return FeatureTable(*(np.array(table[name]) for name in ("mean", "spread", "shown_by")))

    def degrees_of_feature(self, feature: int) -> NoReturn:  # noqa: ARG002
        """Not to be had: it is in all pictures."""
        raise NeedsFolderError("the degrees of a feature in all pictures are in Milvus: ask the gallery in its folder")

    def _found(self, position: int) -> Entry:
        entry: Entry | None = self._records.entry(position)
        if entry is None:
            raise GalleryError(f"there is no picture {position} any more")
        return entry

    def _listing(self, where: Where) -> _Listing:
        return _Listing(self._records, expression_of(resolve(where, self._records)))
