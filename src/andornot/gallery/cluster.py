"""A Ray cluster: its nodes encode files and write rows, or hold the shards of a gallery and search them.

A node keeps nothing that is not stored elsewhere: if it or a process on it is lost, another one gets the same work.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

from ..model import Model
from ..version import __version__
from . import encoding
from .commits import write_rows
from .encoding import EncodedBatch, WrittenRows, encode_files
from .errors import GalleryError
from .projections import RegionBasis, load_components, whole_codes
from .records import ImageRecord, State
from .rows import image_rows
from .scanning import ScannedFile
from .shard import Shard, model_words
from .storage import IMAGES, Storage
from .table import ImageTable
from .writing import Writer

_RIGHT: Final = "write auto, local or ray://host:10001"
_ADDRESS: Final = re.compile(r"(?P<client>ray://)?(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+):(?P<port>\d{1,5})", re.ASCII)
_CONNECT_SECONDS: Final = 5
# Files of a process that died are given to another one so often, and then apart from each other.
_RETRIES: Final = 3
# Batches per processor that are under way: it never waits for the next, and few wait to be committed.
_AHEAD: Final = 3
# While one thread waits for a remote disk, the other decodes.
_THREADS: Final = 2
# Versions of a gallery that a shard keeps: searches of the former one may be under way.
_VERSIONS: Final = 2
# Set before Ray is loaded: no usage statistics, no notes about coming changes, and a Ray that is started here listens
# to this machine alone.
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_ONLY_HERE: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class Cluster:
    """A Ray cluster by its address."""

    def __init__(self, address: str) -> None:
        """`auto` is the cluster that RAY_ADDRESS names, or else `local`: one on this machine, started when needed."""
        if find_spec("ray") is None:
            raise GalleryError("a cluster needs ray: pip install 'andornot[ray]'")
        self._address = (os.environ.get("RAY_ADDRESS") or "local") if address == "auto" else address
        # "auto" of RAY_ADDRESS is Ray's own word: the cluster that was started on this machine.
        if self._address not in ("local", "auto"):
            _check_answers(self._address)

    def encoder(self, writer: Writer) -> Callable[..., Iterator[EncodedBatch]]:
        """Return an `Encode` whose work is done by the nodes, which write rows to the files of a gallery."""

        def encode(
            paths: Sequence[str], model: Model, known: Collection[bytes], identify: Callable[[str], int]
        ) -> Iterator[EncodedBatch]:
            if not paths:
                return
            with self.connected() as ray, self.translated(ray):
                yield from _Run(ray, writer, model, known, identify).results(paths)

        return encode

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield Ray, connected to the cluster; disconnected afterwards unless it was connected before."""
        ray, is_new = self.connect()
        try:
            yield ray
        finally:
            if is_new:
                ray.shutdown()

    def connect(self) -> tuple[Any, bool]:
        """Connect to the cluster, and return Ray and whether it was not connected before."""
        os.environ.update({key: value for key, value in _QUIET.items() if key not in os.environ})
        if self._address == "local" or _is_here(self._address):
            os.environ.update({key: value for key, value in _ONLY_HERE.items() if key not in os.environ})
        import ray

        if ray.is_initialized():
            return ray, False
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "CRITICAL"}
        if self._address == "local":
            quiet["include_dashboard"] = False
        try:
            ray.init(self._address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise self._unreachable(error) from None
        return ray, True

    @contextmanager
    def translated(self, ray: Any) -> Iterator[None]:
        """Turn Ray's errors into GalleryErrors of one line."""
        try:
            yield
        except ray.exceptions.RayTaskError as error:
            raise self._failed(error) from None
        except (ConnectionError, ray.exceptions.RayError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: BaseException) -> GalleryError:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return GalleryError(
            f"the Ray cluster at {self._address} cannot be reached: {reason}; nothing is lost, rerun to resume"
        )

    def _failed(self, error: Any) -> GalleryError:
        cause = error.cause
        if isinstance(cause, GalleryError):
            return cause
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        if "ModuleNotFoundError" in str(error) or "failed to import" in str(error):
            right = f"install andornot {__version__} on every node"
        else:
            right = "nothing is lost, rerun to resume"
        return GalleryError(f"a node of the Ray cluster at {self._address} failed: {lines[-1].strip()}; {right}")


# --- indexing -------------------------------------------------------------------------------------------------------


class _Job(NamedTuple):
    """What every node is told: where the gallery is, its state, and references to the digests that are known."""

    version: str
    address: str
    options: dict[str, str]
    state: State
    known: list[Any]
    total: int


class _Run:
    """The files of one `index`."""

    def __init__(
        self, ray: Any, writer: Writer, model: Model, known: Collection[bytes], identify: Callable[[str], int]
    ) -> None:
        self._ray, self._writer, self._model, self._identify = ray, writer, model, identify
        self._remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_encode_there)
        # In a list, or Ray would send the digests themselves with every batch.
        self._known = [ray.put(np.sort(np.array([*known], "S16")))]

    def results(self, paths: Sequence[str]) -> Iterator[EncodedBatch]:
        """Yield the results of all files, in order."""
        size = encoding.BATCH
        self._total = len(paths)
        batches = deque(paths[start : start + size] for start in range(0, len(paths), size))
        waiting: deque[tuple[Any, dict[str, int]]] = deque()
        try:
            while batches or waiting:
                while batches and len(waiting) < self._most_waiting():
                    ids = {path: self._identify(path) for path in batches.popleft()}
                    waiting.append((self._submit(ids), ids))
                yield from self._result(*waiting.popleft())
        finally:
            for reference, _ in waiting:  # stopped by an error or by Ctrl-C
                self._ray.cancel(reference)

    def _most_waiting(self) -> int:
        # Asked every time: nodes come and go.
        return max(1, _AHEAD * int(self._ray.cluster_resources().get("CPU", 1)))

    def _submit(self, ids: Mapping[str, int]) -> Any:
        storage = self._writer.storage
        options = storage.given_options
        job = _Job(__version__, storage.address, options, self._writer.state, self._known, self._total)
        return self._remote.remote(job, dict(ids))

    def _result(self, reference: Any, ids: Mapping[str, int]) -> Iterator[EncodedBatch]:
        """Yield the result of one batch; in parts if the process that has it dies: then one of its files kills it."""
        errors = self._ray.exceptions
        try:
            yield self._ray.get(reference)
            return
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError):
            pass
        if len(ids) == 1:  # out of reach for now: the next index tries again
            file = ScannedFile(next(iter(ids)), -1, -1, reason="the worker crashed reading this file")
            yield EncodedBatch([file], [], None)
            return
        middle = len(ids) // 2
        for part in (list(ids.items())[:middle], list(ids.items())[middle:]):
            yield from self._result(self._submit(dict(part)), dict(part))


class _Digests(Collection[bytes]):
    """Digests as one sorted array, which all processes of a node share."""

    def __init__(self, ordered: np.ndarray) -> None:
        self._ordered = ordered

    def __contains__(self, digest: object) -> bool:
        place = int(np.searchsorted(self._ordered, np.array(digest, "S16")))
        return place < len(self._ordered) and bool(self._ordered[place] == np.array(digest, "S16"))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._ordered.tolist())

    def __len__(self) -> int:
        return len(self._ordered)


# A process is used for one batch after the other.
_models: Final[dict[str, Model]] = {}


def _encode_there(job: _Job, ids: Mapping[str, int]) -> EncodedBatch:
    """Encode files on a node, and write the rows of those that are new or changed."""
    import ray

    if job.version != __version__:
        raise GalleryError(
            f"{socket.gethostname()} has andornot {__version__}, and this is {job.version}: "
            "install the same version on every node"
        )
    storage, state = Storage(job.address, job.options), job.state
    model = _model_there(storage, state)
    model.reserve(job.total)
    known = _Digests(ray.get(job.known[0]))
    batch = next(encode_files(list(ids), model, known, threads=_THREADS))
    files = [_with_host(item) for item in batch.files]
    if batch.extracted is None:
        return EncodedBatch(files, [], None)
    places = {digest: place for place, digest in enumerate(batch.digests)}
    fresh = [item for item in files if not item.reason and item.digest in places]
    records = [
        ImageRecord(
            ids[item.path], item.path, item.size, item.mtime_ns, item.digest, item.taken, item.by_camera,
            item.width, item.height,
        )
        for item in fresh
    ]  # fmt: skip
    part = batch.extracted.select([places[item.digest] for item in fresh])
    basis = RegionBasis.load(storage, state.basis, model) if state.basis else None
    codes = None
    if state.codes:
        codes = state.codes, whole_codes(model, load_components(storage, state.components), part.activations)
    rows = write_rows(storage, storage.open(IMAGES), image_rows(records, part, basis, codes))
    written = WrittenRows(
        [json.dumps(fragment.to_json()) for fragment in rows], {item.path: ids[item.path] for item in fresh}
    )
    return EncodedBatch(files, batch.digests, None, written)


def _model_there(storage: Storage, state: State) -> Model:
    if state.model_id not in _models:
        import torch

        torch.set_num_threads(1)  # before the model makes sessions with as many
        _models.clear()
        _models[state.model_id] = Model.load(storage.local_copy(state.model))
    return _models[state.model_id]


def _with_host(item: ScannedFile) -> ScannedFile:
    """Return a file that this node cannot read with the node's name in the reason: others may be able to."""
    return item._replace(reason=f"{item.reason} (on {socket.gethostname()})") if item.is_out_of_reach else item


# --- searching ------------------------------------------------------------------------------------------------------


class ShardActor:
    """A shard on a node, for the last versions of a gallery that were asked for."""

    def __init__(self, address: str, options: Mapping[str, str], number: int, count: int, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._storage = Storage(address, options)
        self._number, self._count = number, count
        self._shards: dict[int, Shard] = {}

    def call(self, version: int, method: str, *arguments: Any) -> Any:
        """Call a method of the shard of a version."""
        return getattr(self._shard(version), method)(*arguments)

    def _shard(self, version: int) -> Shard:
        if version not in self._shards:
            table = ImageTable.open(self._storage, version)
            former = next(reversed(self._shards.values()), None)
            model = _model_there(self._storage, table.state)
            if former is not None and former.model_id == table.state.model_id:
                self._shards[version] = former.for_version(table, model)
            else:
                self._shards[version] = Shard(table, model, model_words(model), self._number, self._count)
            while len(self._shards) > _VERSIONS:
                del self._shards[next(iter(self._shards))]
        return self._shards[version]


class RayShards:
    """The shards of a version of a gallery on the nodes of a cluster."""

    def __init__(self, cluster: Cluster, ray: Any, actors: list[Any], version: int) -> None:
        self._cluster, self._ray, self._actors, self._version = cluster, ray, actors, version

    @classmethod
    def open(cls, cluster: Cluster, table: ImageTable, count: int | None) -> RayShards:
        """Start a process for each shard; one that dies is started again elsewhere."""
        ray, _ = cluster.connect()
        with cluster.translated(ray):
            processors = int(ray.cluster_resources().get("CPU", 1))
            number = count or processors
            # None of them reserves a processor: an index on the same cluster would wait for it for ever.
            options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
            remote = ray.remote(**options, scheduling_strategy="SPREAD")(ShardActor)
            storage = table.storage
            actors = [
                remote.remote(storage.address, storage.given_options, place, number, max(1, processors // number))
                for place in range(number)
            ]
        return cls(cluster, ray, actors, table.version)

    def map(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of each shard."""
        with self._cluster.translated(self._ray):
            calls = [actor.call.remote(self._version, method, *arguments) for actor in self._actors]
            return list(self._ray.get(calls))

    def for_version(self, table: ImageTable, model: Model) -> RayShards:  # noqa: ARG002 - as that of a local shard
        """Return the shards of another version, in the same processes."""
        return RayShards(self._cluster, self._ray, self._actors, table.version)


def _is_here(address: str) -> bool:
    """Whether it is the address of a machine for itself, in whose place Ray would take one that others know."""
    match = _ADDRESS.fullmatch(address)
    return match is not None and match["host"] in ("localhost", "127.0.0.1", "[::1]")


def _check_answers(address: str) -> None:
    """Raise a GalleryError within seconds if no Ray cluster answers at the address: Ray itself waits much longer."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 2**16:
        raise GalleryError(f'"{address}" is no address of a Ray cluster: {_RIGHT}')
    host, port = match["host"].strip("[]"), int(match["port"])
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        raise GalleryError(
            f"there is no Ray cluster at {address}: {error.strerror or error}; start it (ray start --head), or {_RIGHT}"
        ) from None
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    import grpc  # type: ignore[import-untyped]

    channel = grpc.insecure_channel(f"{match['host']}:{port}")
    try:
        grpc.channel_ready_future(channel).result(_CONNECT_SECONDS)
    except grpc.FutureTimeoutError:
        raise GalleryError(f"what is at {address} does not answer as a Ray cluster does: {_RIGHT}") from None
    finally:
        channel.close()
