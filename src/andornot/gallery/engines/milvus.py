"""The vectors of a gallery in a Milvus server, which finds the nearest.

The gallery's folder stays the ledger: a collection can be dropped at any time, and the next `index` fills it again. It
holds all that is known of each picture, the vector of one score, and a stamp that changes with any of these; by the
stamps a collection is compared with the gallery. An alias of the collection says which state it holds completely. What
there is one of, the model above all, is in a second collection, `…_about`: who searches needs nothing else.
"""

import json
import secrets
import shlex
import warnings
from collections.abc import Iterator
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from pymilvus import DataType, MilvusClient  # type: ignore[import-untyped]
from torch import Tensor

from ...files import write_text
from ...progress import track
from ..browsing import Browser
from ..centred import Centred, evenly
from ..errors import GalleryError
from ..filters import Selection, resolve
from ..layout import IDENTITY
from ..likeness.truth import ENOUGH_PICTURES
from ..model_files import pack_model
from ..options import CENTRED
from ..reading import checked
from ..records import Entry
from ..vectors import Degrees, Vectors
from .milvus_about import About
from .milvus_connection import Address, Connection
from .milvus_records import as_stored, axes_to_bytes, expression_of, metadata, record_of
from .milvus_space import Space
from .scan import exact_for

_FORMAT: Final = 3
# Above this number of pictures an index pays; docs/milvus.md has the figures behind these settings.
_FLAT_AT_MOST: Final = 100_000
HNSW: Final = {"M": 16, "efConstruction": 200}
_EF: Final = 400

# More than asked for, because Milvus rounds in another order than we do.
SPARE: Final = 16
_BATCH_ROWS, _BATCH_BYTES = 1000, 2**23
# Limits of Milvus.
_LARGEST_TOP: Final = 16_384
_MOST_DIMENSIONS: Final = 32_768
_LONGEST_TEXT: Final = 65_535


def milvus_engine(address: str) -> "partial[Milvus]":
    """What makes engines that keep their vectors at this address."""
    return partial(Milvus, Address.parse(address))


class SearchedMilvus:
    """A collection for the vectors of one score. Candidates are scored again, so that scores are those of `Exact`."""

    def __init__(self, address: Address, server: Connection, vectors: Vectors) -> None:
        self._address, self._vectors, self._exact = address, vectors, exact_for(vectors)
        self._snapshot = vectors.sources.snapshot
        self._server = server
        ending = "" if vectors.score == "degrees" else f"_{vectors.score.replace('-', '_')}"
        self._name = f"{address.collection}{ending}"
        self._is_checked = False

    # --- searching --------------------------------------------------------------------------------------------------

    def search(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """As `Engine.search`. What Milvus cannot give, as few pass or very many are asked for, is compared here."""
        where = selection.where
        expression = "" if where is None else expression_of(resolve(where, self._snapshot))
        self._check()
        top = min(top, len(self._snapshot))
        asked = top + SPARE
        while top > 0 and asked <= _LARGEST_TOP:
            answers = self._ask(queries, asked, expression)
            found = [self._rows(ids) for ids in answers]
            if all(len(rows) >= top for rows in found):
                pairs = zip(queries, found, strict=True)
                best = [self._exact.best_of(query, rows, top) for query, rows in pairs]
                return np.stack([rows for rows, _ in best]), np.stack([scores for _, scores in best])
            if min(map(len, answers)) < asked:
                break
            asked *= 2  # many of them are not in the gallery any more
        return self._compare(queries, top, selection)

    def _compare(self, queries: Tensor, top: int, selection: Selection) -> tuple[np.ndarray, np.ndarray]:
        """With all that pass a filter."""
        return self._exact.search(queries, top, selection)

    def _check(self) -> None:
        """Before the first search: whether the collection is there."""
        if self._is_checked:
            return
        if not self._server.call("has_collection", self._name):
            raise GalleryError(
                f"there is no collection {self._name} in {self._address}: andornot index --gallery FOLDER --engine "
                f"{self._address} --score {self._vectors.score} makes it"
            )
        self._server.call("load_collection", self._name)
        self._is_checked = True

    def prepare(self) -> None:
        """Nothing: who only searches does not fill it."""

    def _ask(self, queries: Tensor, count: int, expression: str) -> list[list[int]]:
        """The ids that Milvus finds for each query, best first."""
        points = self._space.queries(queries).numpy()
        found: list[list[int]] = []
        for part in np.array_split(points, -(-points.nbytes // _BATCH_BYTES)):
            hits = self._server.call(
                "search",
                self._name,
                list(part),
                filter=expression,
                limit=count,
                search_params={"params": {"ef": max(self._address.ef or _EF, count)}},
                consistency_level="Strong",
            )
            found += [[hit["id"] for hit in of_query] for of_query in hits]
        return found

    def _rows(self, ids: list[int]) -> np.ndarray:
        """A row is an id."""
        return np.array(ids, np.int64)

    @cached_property
    def _space(self) -> Space:
        if self._vectors.score == CENTRED:
            return Space(self._vectors.dimensions, None)
        model = self._vectors.sources.model
        return Space.of(self._vectors.score, model.num_features, model.num_values)


class Milvus(SearchedMilvus):
    """The same for a gallery in its folder, whose collection it keeps."""

    def __init__(self, address: Address, vectors: Vectors) -> None:
        super().__init__(address, Connection(address), vectors)
        self._about = About(self._server, address.collection)

    def _check(self) -> None:
        """Before the first search: whether the collection is ours and complete, and can be searched."""
        if self._is_checked:
            return
        held = self._describe()
        if held is None:
            raise GalleryError(f"there is no collection {self._name} in {self._address}: {self._command} fills it")
        if held["description"] != self._description:
            raise GalleryError(
                f"{self._name} in {self._address} is of another model, or of an older version: {self._command} "
                "fills it anew"
            )
        if self._alias not in held["aliases"]:
            warnings.warn(
                f"{self._name} in {self._address} does not hold the gallery as it is now: {self._command} completes it",
                stacklevel=2,
            )
        self._server.call("load_collection", self._name)
        self._is_checked = True

    def _rows(self, ids: list[int]) -> np.ndarray:
        """The rows of those ids that the gallery has."""
        return self._snapshot.catalogue.rows_of(np.array(ids, np.int64))

    # --- keeping ----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """As `Engine.prepare`: afterwards the collection holds what the gallery does. Stopped, the next one goes on."""
        self._identify()
        held = self._describe()
        if held is not None and held["description"] != self._description:
            self._forget_states(held)
            self._server.call("drop_collection", self._name)
            held = None
        if held is None:
            self._create()
        else:
            self._adapt_index()
            if self._alias in held["aliases"] and self._about.is_there():
                return
            self._forget_states(held)
        self._synchronise()
        self._server.call("flush", self._name)
        self._tell_about()
        self._server.call("create_alias", self._name, self._alias)

    def _tell_about(self) -> None:
        """Puts beside the degrees what a searcher needs besides the pictures."""
        if self._vectors.score != "degrees":
            return
        snapshot, sources = self._snapshot, self._vectors.sources
        degrees = Degrees(sources)
        table, centred = Browser(sources, degrees).features, Centred(sources, degrees)
        # What truths are measured by; the same as in the folder.
        sample = evenly(np.sort(snapshot.rows), ENOUGH_PICTURES)
        facts = {
            **self._description,
            "pictures": len(snapshot),
            "period": [int(snapshot.taken.min()), int(snapshot.taken.max())] if len(snapshot) else None,
            "folders": [as_stored(folder) for folder in snapshot.folders],
            "sample": snapshot.ids_of_rows(sample).tolist(),
            "features": {
                "mean": table.mean.tolist(),
                "spread": table.spread.tolist(),
                "shown_by": [
                    [int(snapshot.catalogue.id_at(place)) for place in row] for row in table.shown_by.tolist()
                ],
            },
        }
        documents = {
            "facts": json.dumps(facts).encode(),
            "folders": json.dumps({as_stored(name): count for name, count in snapshot.folder_counts.items()}).encode(),
            "broken": json.dumps([[as_stored(one.path), *one[1:]] for one in snapshot.broken.values()]).encode(),
            "axes": axes_to_bytes(centred.components),
            "sample": centred.codes(sample).numpy().tobytes(),
            **pack_model(sources.model),
        }
        self._about.write(documents, self._description)

    def _synchronise(self) -> None:
        """Deletes what is gone, and writes what is new or changed."""
        there = self._stamps_there()
        entries = [*self._snapshot.catalogue.entries()]
        stamps = [*map(_stamp, entries)]
        ids = [entry.picture.id for entry in entries]
        gone = list(there.keys() - set(ids))
        for start in range(0, len(gone), _BATCH_ROWS):
            self._server.call("delete", self._name, ids=gone[start : start + _BATCH_ROWS])
        missing = np.array([there.get(one) != stamp for one, stamp in zip(ids, stamps, strict=True)], bool)
        rows = self._snapshot.rows
        positions = np.flatnonzero(missing)
        positions = positions[np.argsort(rows[positions])]
        batch = max(1, min(_BATCH_ROWS, _BATCH_BYTES // (4 * self._space.dimensions)))
        with track("to Milvus", len(positions), delay=1) as bar:
            for start in range(0, len(positions), batch):
                chosen = positions[start : start + batch]
                points = self._space.gallery(self._vectors.take(rows[chosen])).numpy()
                records = [
                    {"id": ids[place], "stamp": stamps[place], **record, "vector": point}
                    for place, record, point in zip(
                        chosen.tolist(), self._records([entries[place] for place in chosen]), points, strict=True
                    )
                ]
                self._server.call("upsert", self._name, records)
                bar.update(len(chosen))

    def _records(self, entries: list[Entry]) -> Iterator[dict[str, Any]]:
        """What is known of some pictures; with the degrees also their features, of which all else can be made."""
        if self._vectors.score != "degrees":
            return ({**metadata(entry), "features": ""} for entry in entries)
        rows = np.array([entry.picture.row for entry in entries], np.int64)
        return map(record_of, entries, checked(self._snapshot, self._vectors.sources.features, rows))

    def _stamps_there(self) -> dict[int, int]:
        """The stamp of each id in the collection."""
        end = self._snapshot.state.next_id
        self._server.call("load_collection", self._name)
        self._server.call("delete", self._name, filter=f"id < 1 or id >= {end}")
        stamps: dict[int, int] = {}
        # Ranges of ids, and not the iterator of pymilvus: each is a request of its own, which can be repeated.
        for start in range(1, end, _LARGEST_TOP):
            found = self._server.call(
                "query",
                self._name,
                filter=f"id >= {start} and id < {start + _LARGEST_TOP}",
                output_fields=["id", "stamp"],
                limit=_LARGEST_TOP,
                consistency_level="Strong",
            )
            stamps |= {record["id"]: record["stamp"] for record in found}
        return stamps

    @cached_property
    def _alias(self) -> str:
        """The name of the collection when it holds just this state of the gallery."""
        ids = self._snapshot.ids
        state = blake2b(ids.tobytes() + self._snapshot.taken.tobytes(), digest_size=8)
        state.update(self._snapshot.by_camera.tobytes())
        state.update(self._snapshot.catalogue.features_crcs(ids).tobytes())
        state.update(b"\0".join(self._snapshot.catalogue.paths()))
        state.update(repr((self._snapshot.folders, sorted(self._snapshot.broken.values()))).encode())
        return f"{self._name}_holds_{state.hexdigest()}"

    def _forget_states(self, held: dict[str, Any]) -> None:
        for alias in held["aliases"]:
            if alias.startswith(f"{self._name}_holds_"):
                self._server.call("drop_alias", alias)

    # --- the collection ---------------------------------------------------------------------------------------------

    def _describe(self) -> dict[str, Any] | None:
        """What is known of the collection, None if there is none. Somebody else's is a GalleryError."""
        if not self._server.call("has_collection", self._name):
            return None
        held: dict[str, Any] = self._server.call("describe_collection", self._name)
        try:
            held["description"] = json.loads(held["description"])
            owner = held["description"]["gallery"], held["description"]["score"]
        except (ValueError, KeyError, TypeError):
            raise GalleryError(
                f"{self._name} in {self._address} was not made by andornot: choose another name for the collection"
            ) from None
        if owner != (self._description["gallery"], self._description["score"]):
            raise GalleryError(
                f"{self._name} in {self._address} holds {owner[1]} of another gallery: choose another name for the "
                "collection, or drop it"
            )
        return held

    @property
    def _description(self) -> dict[str, Any]:
        """What the collection is said to be: whose it is, and what its vectors depend on besides the pictures."""
        file = self._vectors.sources.folder / IDENTITY
        return {
            "gallery": file.read_text(encoding="utf-8") if file.exists() else "",
            "score": self._vectors.score,
            "model": self._snapshot.state.model_id,
            "format": _FORMAT,
            **({"version": self._vectors.version} if self._vectors.version else {}),
        }

    def _identify(self) -> None:
        """Gives the gallery a name that no other has, and that stays when it is moved."""
        file = self._vectors.sources.folder / IDENTITY
        if not file.exists():
            write_text(file, secrets.token_hex(16))

    def _create(self) -> None:
        if self._space.dimensions > _MOST_DIMENSIONS:
            raise GalleryError(
                f"{self._vectors.score} has {self._space.dimensions:,} numbers a picture, and Milvus takes "
                f"{_MOST_DIMENSIONS:,}: search by degrees, or with another engine"
            )
        schema = MilvusClient.create_schema(
            auto_id=False, enable_dynamic_field=False, description=json.dumps(self._description)
        )
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("stamp", DataType.INT64)
        for text in ("path", "folder", "name", "label", "digest", "features"):
            schema.add_field(text, DataType.VARCHAR, max_length=_LONGEST_TEXT)
        for number in ("size", "mtime_ns", "taken", "by_camera", "features_crc"):
            schema.add_field(number, DataType.INT64)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=self._space.dimensions)
        self._server.call("create_collection", self._name, schema=schema, index_params=self._index)

    def _adapt_index(self) -> None:
        """Another kind of index, if the address asks for it, or the gallery has grown."""
        now = self._server.call("describe_index", self._name, "vector")
        if now is not None and now["index_type"] == self._kind:
            return
        self._server.call("release_collection", self._name)
        if now is not None:
            self._server.call("drop_index", self._name, "vector")
        # Not waited for: until it is made, searches are only slower.
        self._server.call("create_index", self._name, self._index, sync=False)

    @property
    def _kind(self) -> str:
        return self._address.index or ("FLAT" if len(self._snapshot) <= _FLAT_AT_MOST else "HNSW")

    @property
    def _index(self) -> Any:
        parameters = MilvusClient.prepare_index_params()
        parameters.add_index(
            "vector",
            index_type=self._kind,
            metric_type=self._space.metric,
            params=HNSW if self._kind == "HNSW" else {},
        )
        return parameters

    @property
    def _command(self) -> str:
        """What brings the collection up to date."""
        score = "" if self._vectors.score == "degrees" else f" --score {self._vectors.score}"
        folder = shlex.quote(str(self._vectors.sources.folder))
        return f"andornot index --gallery {folder} --engine {self._address}{score}"


def _stamp(entry: Entry) -> int:
    """A number that changes with the picture's features and metadata."""
    content = f"{entry.picture.features_crc} {metadata(entry)}"
    return int.from_bytes(blake2b(content.encode(), digest_size=8).digest(), "big", signed=True)
