"""The records of a gallery as Milvus has them: each is asked for when it is needed, and only the last are kept."""

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import numpy as np
import torch
from torch import Tensor

from ...logic.distance import SCORES
from ...model import DESCRIPTION, WEIGHTS, Model, ModelError
from ..centred import CentredVectors
from ..errors import GalleryError
from ..feature_store import checksum
from ..filters import Conditions
from ..likeness.components import Components, to_bytes
from ..model_files import unpack_model
from ..options import CENTRED
from ..paths import label_of
from ..records import Broken, Entry, Picture
from ..vectors import Sources
from .milvus_about import About
from .milvus_connection import Connection

# A limit of Milvus, for one answer.
MOST_AT_ONCE: Final = 16_384
_IN_ONE_QUERY: Final = 256
_SUGGESTED_FROM: Final = 2_000
_KEPT: Final = 1_024
# Of an entry.
_FIELDS: Final = ("id", "path", "size", "mtime_ns", "digest", "taken", "by_camera", "features_crc")


class Facts:
    """What there is one of: read when it is asked for, all of one moment."""

    def __init__(self, about: About) -> None:
        self._about, self.manifest = about, about.manifest()

    @property
    def token(self) -> str:
        """Another text for other documents."""
        return json.dumps(self.manifest["documents"], sort_keys=True)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The numbers, as `index` wrote them."""
        values: dict[str, Any] = self._json("facts")
        return values

    @cached_property
    def folders(self) -> tuple[str, ...]:
        """The folders that `index` looks through."""
        return tuple(map(as_path, self.values["folders"]))

    @cached_property
    def folder_counts(self) -> dict[str, int]:
        """How many pictures lie directly in each folder that has any."""
        return {as_path(folder): count for folder, count in self._json("folders").items()}

    @cached_property
    def broken(self) -> dict[str, Broken]:
        """Files that cannot be read as pictures."""
        entries = (Broken(as_path(path), *rest) for path, *rest in self._json("broken"))
        return {entry.path: entry for entry in entries}

    def model(self) -> Model:
        """The gallery's model."""
        files = {name: self._about.read(self.manifest, name) for name in (DESCRIPTION, WEIGHTS)}
        try:
            model = unpack_model(files)
            if model.id != self.values["model"]:
                raise ModelError("it is not the model that the gallery was made with")
        except ModelError as error:
            raise GalleryError(f"the model in Milvus cannot be used: {error}") from None
        return model

    def document(self, name: str) -> bytes:
        """One of those beside the collection."""
        return self._about.read(self.manifest, name)

    def _json(self, name: str) -> Any:
        return json.loads(self.document(name))


class MilvusRecords:
    """`Records` by queries. A row is the id of its picture."""

    def __init__(self, server: Connection, collection: str, facts: Facts) -> None:
        self._server, self._collection, self._facts = server, collection, facts
        self._server.call("load_collection", collection)
        self.called_once: Callable[[str], tuple[Entry, ...]] = lru_cache(_KEPT)(self._called)
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        return int(self._facts.values["pictures"])

    @property
    def folders(self) -> tuple[str, ...]:
        """As `Records.folders`; the next two likewise."""
        return self._facts.folders

    @property
    def broken(self) -> Mapping[str, Broken]:  # noqa: D102
        return self._facts.broken

    @property
    def folder_counts(self) -> Mapping[str, int]:  # noqa: D102
        return self._facts.folder_counts

    def ids_of_rows(self, rows: np.ndarray) -> np.ndarray:
        """A row is an id."""
        return rows

    def rows_of(self, ids: np.ndarray) -> np.ndarray:
        """An id is a row."""
        return ids

    def entry(self, identity: int) -> Entry | None:
        """As `Records.entry`."""
        return next(iter(self.entries([identity])), None)

    def entries(self, ids: Sequence[int]) -> list[Entry]:
        """Those of some ids that there are, in their order."""
        missing = [identity for identity in ids if identity not in self._entries]
        if missing:
            if len(self._entries) > _KEPT:
                self._entries.clear()
            found = (as_entry(record) for record in self.fields(missing, _FIELDS))
            self._entries |= {entry.picture.id: entry for entry in found}
        return [self._entries[identity] for identity in ids if identity in self._entries]

    def called(self, file_name: str) -> Iterator[Entry]:
        """As `Records.called`."""
        return iter(self.called_once(file_name))

    def with_digest(self, digest: bytes) -> Iterator[Entry]:
        """As `Records.with_digest`."""
        return iter(self._matching(f'digest == "{digest.hex()}"', MOST_AT_ONCE))

    def some_names(self) -> Iterator[str]:
        """As `Records.some_names`."""
        found = self._query("id > 0", ["path"], _SUGGESTED_FROM)
        return (os.path.basename(as_path(record["path"])) for record in found)  # noqa: PTH119

    def ids(self, expression: str, count: int = MOST_AT_ONCE) -> np.ndarray:
        """Of some that pass an expression, in order."""
        found = self._query(expression or "id > 0", ["id"], count)
        return np.sort(np.array([record["id"] for record in found], np.int64))

    def count(self, expression: str) -> int:
        """How many pass."""
        found = self._query(expression or "id > 0", ["count(*)"], None)
        return int(found[0]["count(*)"])

    def fields(self, ids: Sequence[int], names: Sequence[str]) -> list[dict[str, Any]]:
        """Some fields of those of some pictures that there are, in no order."""
        found: list[dict[str, Any]] = []
        for start in range(0, len(ids), _IN_ONE_QUERY):
            part = [*map(int, ids[start : start + _IN_ONE_QUERY])]
            found += self._query(f"id in {part}", ["id", *names], len(part))
        return found

    def _called(self, file_name: str) -> tuple[Entry, ...]:
        try:
            return tuple(self._matching(f'name == "{as_stored(file_name)}"', MOST_AT_ONCE))
        except UnicodeEncodeError:  # no file can be called so
            return ()

    def _matching(self, expression: str, count: int) -> list[Entry]:
        found = map(as_entry, self._query(expression, _FIELDS, count))
        return sorted(found, key=lambda entry: entry.picture.id)

    def _query(self, expression: str, names: Sequence[str], count: int | None) -> list[dict[str, Any]]:
        limit = {} if count is None else {"limit": count}
        found: list[dict[str, Any]] = self._server.call(
            "query",
            self._collection,
            filter=expression,
            output_fields=list(names),
            consistency_level="Strong",
            **limit,
        )
        return found


class MilvusSources(Sources):
    """The representation of any row, which is an id."""

    snapshot: Any

    def __init__(self, records: MilvusRecords, model: Model) -> None:
        self.snapshot, self.model = records, model

    def activations(self, rows: np.ndarray) -> Tensor:
        """The features `(n, width)` of some ids, which are checked."""
        found = {one["id"]: one for one in self.snapshot.fields(rows.tolist(), ["features", "features_crc"])}
        features = np.stack([_features(found.get(identity), identity) for identity in rows.tolist()])
        return torch.from_numpy(features).float()


class MilvusVectors:
    """As `Vectors`: those of degrees are in the collection, those of other scores are made of the features."""

    def __init__(self, sources: MilvusSources, score: str) -> None:
        self.sources, self.score = sources, score
        model = sources.model
        self.dimensions = model.num_features * (1 if score == "degrees" else model.num_values)

    def take(self, rows: np.ndarray, out: Tensor | None = None) -> Tensor:
        """The vectors of some ids, which ascend."""
        out = torch.empty(len(rows), self.dimensions) if out is None else out[: len(rows)]
        if not len(rows):
            return out
        if self.score == "degrees":
            found = {one["id"]: one["vector"] for one in self.sources.snapshot.fields(rows.tolist(), ["vector"])}
            out[:] = torch.tensor(np.array([_there(found.get(one), one) for one in rows.tolist()], np.float32))
        else:
            for start in range(0, len(rows), _IN_ONE_QUERY):
                part = self.sources.represent(rows[start : start + _IN_ONE_QUERY])
                out[start : start + _IN_ONE_QUERY] = SCORES[self.score].gallery(part)
        return out


class MilvusCentred:
    """As `Centred`: what each picture has beyond the average one, from the collection of the centred score."""

    def __init__(self, server: Connection, collection: str, facts: Facts, model: Model) -> None:
        self._server, self._collection, self._facts = server, f"{collection}_{CENTRED}", facts
        self._model = model

    @cached_property
    def components(self) -> Components:
        """The mean and the axes of the gallery."""
        content = torch.frombuffer(bytearray(self._facts.document("axes")), dtype=torch.float32)
        table = content.view(self._model.num_features, -1)
        return Components(table[:, 0].contiguous(), table[:, 1:].contiguous())

    @property
    def dimensions(self) -> int:
        """How many axes there are."""
        return int(self.components.axes.shape[1])

    @cached_property
    def sample(self) -> np.ndarray:
        """The ids of pictures by which truths are measured."""
        return np.array(self._facts.values["sample"], np.int64)

    def codes(self, rows: np.ndarray) -> Tensor:
        """The components of some ids, `(n, dimensions)` int8; those of the sample are at hand."""
        if np.array_equal(rows, self.sample):
            return self._sampled
        found = {one["id"]: one["vector"] for one in self._records.fields(rows.tolist(), ["vector"])}
        vectors = np.array([_there(found.get(one), one) for one in rows.tolist()], np.float32)
        return to_bytes(torch.from_numpy(vectors.reshape(len(rows), self.dimensions)))

    def codes_of(self, rows: np.ndarray) -> Tensor:
        """The same of a few ids in any order."""
        ascending, places = np.unique(rows, return_inverse=True)
        return self.codes(ascending)[torch.from_numpy(places.reshape(-1))]

    @cached_property
    def _sampled(self) -> Tensor:
        content = np.frombuffer(bytearray(self._facts.document("sample")), np.int8)
        return torch.from_numpy(content.reshape(len(self.sample), self.dimensions))

    @cached_property
    def _records(self) -> MilvusRecords:
        return MilvusRecords(self._server, self._collection, self._facts)


class MilvusCentredVectors(CentredVectors):
    """The same as floats."""

    centred: Any

    def __init__(self, sources: MilvusSources, centred: MilvusCentred) -> None:
        self.sources, self.centred = sources, centred
        self.score, self.dimensions = CENTRED, centred.dimensions


def axes_to_bytes(components: Components) -> bytes:
    """The mean and the axes, as `MilvusCentred` reads them."""
    table = torch.cat([components.mean[:, None], components.axes], 1)
    return bytes(table.contiguous().numpy().tobytes())


def record_of(entry: Entry, features: np.ndarray) -> dict[str, Any]:
    """What is stored of a picture, but for its vector and its stamp."""
    return {**metadata(entry), "features": base64.b64encode(features.tobytes()).decode()}


def metadata(entry: Entry) -> dict[str, Any]:
    """What names, filters and answers look at."""
    picture = entry.picture
    folder, name = os.path.split(picture.path)
    return {
        "path": as_stored(picture.path),
        "folder": as_stored(folder),
        "name": as_stored(name),
        "label": as_stored(label_of(picture.path)),
        "size": picture.size,
        "mtime_ns": picture.mtime_ns,
        "digest": picture.digest.hex(),
        "taken": picture.taken,
        "by_camera": entry.by_camera,
        "features_crc": picture.features_crc,
    }


def as_entry(record: Mapping[str, Any]) -> Entry:
    """What was stored of a picture; its row is its id."""
    picture = Picture(
        record["id"],
        as_path(record["path"]),
        record["size"],
        record["mtime_ns"],
        bytes.fromhex(record["digest"]),
        record["taken"],
        record["id"],
        record["features_crc"],
    )
    return Entry(picture, record["by_camera"])


def expression_of(conditions: Conditions) -> str:
    """A filter in the language of Milvus."""
    parts = []
    if conditions.folder is not None:
        folder = as_stored(conditions.folder).rstrip("/")
        # A path in the folder begins with its name and a slash, and the character after the slash is 0.
        parts.append(f'(path == "{folder}" or (path >= "{folder}/" and path < "{folder}0"))')
    if conditions.label is not None:
        parts.append(f'label == "{as_stored(conditions.label)}"')
    if conditions.after is not None:
        parts.append(f"taken >= {conditions.after}")
    if conditions.before is not None:
        parts.append(f"taken < {conditions.before}")
    if conditions.needs_camera:
        parts.append("by_camera != 0")
    return " and ".join(parts)


def as_stored(text: str) -> str:
    """A path as it is stored: names of files need not be text, and Milvus has an opinion on quotes and backslashes."""
    return quote(os.fsencode(text))


def as_path(text: str) -> str:
    """The path that was stored."""
    return os.fsdecode(unquote_to_bytes(text))


def _features(record: Mapping[str, Any] | None, identity: int) -> np.ndarray:
    row = np.frombuffer(base64.b64decode(_there(record, identity)["features"]), np.float16)
    if checksum(row) != _there(record, identity)["features_crc"]:
        raise GalleryError(f"the features of picture {identity} in Milvus are damaged: drop the collection, and index")
    return row


def _there(value: Any, identity: int) -> Any:
    if value is None:
        raise GalleryError(f"picture {identity} was removed while it was looked for: search again")
    return value
