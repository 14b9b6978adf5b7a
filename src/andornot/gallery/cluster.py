"""Indexing and searching on a Ray cluster: nodes encode files and write rows, or hold shards and search them.

Nodes are stateless: if a node or one of its processes is lost, its work is given to another.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from ..errors import require_packages
from ..model import Model
from ..version import __version__
from . import encoding
from .commits import write_rows
from .encoding import Encode, EncodedBatch, WrittenRows, encode_files
from .errors import GalleryError
from .records import State
from .rows import encoded_rows
from .scanning import ScannedFile
from .shard import Shard
from .storage import Storage
from .table import ImageTable
from .writing import Writer, load_model

_RIGHT: Final = "write auto, local or ray://host:10001"
_ADDRESS: Final = re.compile(r"(?P<client>ray://)?(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+):(?P<port>\d{1,5})", re.ASCII)
_CONNECT_SECONDS: Final = 5
# How often the files of a crashed worker are retried together before they are tried one by one.
_RETRIES: Final = 3
# Batches in flight per processor: enough to keep it busy, few enough that little is left uncommitted.
_AHEAD: Final = 3
# Two threads, so that one decodes while the other waits for a remote disk.
_THREADS: Final = 2
# Versions of a gallery that a shard keeps open, because searches of the previous one may still be running.
_VERSIONS: Final = 2
# Set before Ray is imported: no usage statistics, no deprecation notes, and a local Ray listens on this machine only.
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_ONLY_HERE: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class Cluster:
    """A Ray cluster, identified by its address."""

    def __init__(self, address: str) -> None:
        """Set the address. `auto` is RAY_ADDRESS if set, else `local`: a cluster on this machine, started if needed."""
        require_packages("a cluster", "ray")
        self._address = (os.environ.get("RAY_ADDRESS") or "local") if address == "auto" else address
        # In RAY_ADDRESS, "auto" is Ray's own name for the cluster that was started on this machine.
        if self._address not in ("local", "auto"):
            _check_answers(self._address)

    def encoder(self, writer: Writer) -> Encode:
        """Return an `Encode` that runs on the nodes, which write rows to the gallery's files."""

        def encode(
            paths: Sequence[str], _: Model, known: Collection[bytes], identify: Callable[[str], int]
        ) -> Iterator[EncodedBatch]:
            if paths:
                with self.connected() as ray, self.translated(ray):
                    yield from _Run(ray, writer, known, identify, len(paths)).results(paths)

        return encode

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Yield the connected `ray` module; disconnect afterwards unless it was connected before."""
        ray, is_new = self.connect()
        try:
            yield ray
        finally:
            if is_new:
                ray.shutdown()

    def connect(self) -> tuple[Any, bool]:
        """Connect to the cluster; return the `ray` module and whether the connection is new."""
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
        """Convert Ray's errors to one-line GalleryErrors."""
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
    """The job description sent to every node: storage, state, and references to the known digests."""

    version: str
    storage: Storage
    state: State
    known: list[Any]
    total: int


class _Run:
    """One indexing run."""

    def __init__(
        self, ray: Any, writer: Writer, known: Collection[bytes], identify: Callable[[str], int], total: int
    ) -> None:
        self._ray, self._writer, self._identify, self._total = ray, writer, identify, total
        self._remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_encode_there)
        # In a list: Ray would resolve a bare reference and send the digests with every batch.
        self._known = [ray.put(np.sort(np.array([*known], "S16")))]

    def results(self, paths: Sequence[str]) -> Iterator[EncodedBatch]:
        """Yield the results of all files, in order."""
        size = encoding.BATCH
        batches = deque(paths[start : start + size] for start in range(0, len(paths), size))
        waiting: deque[tuple[Any, dict[str, int]]] = deque()
        try:
            while batches or waiting:
                # Queried every time, because nodes join and leave.
                most = max(1, _AHEAD * int(self._ray.cluster_resources().get("CPU", 1)))
                while batches and len(waiting) < most:
                    ids = {path: self._identify(path) for path in batches.popleft()}
                    waiting.append((self._submit(ids), ids))
                yield from self._result(*waiting.popleft())
        finally:
            for reference, _ in waiting:  # after an error or Ctrl-C
                self._ray.cancel(reference)

    def _submit(self, ids: Mapping[str, int]) -> Any:
        job = _Job(__version__, self._writer.storage, self._writer.state, self._known, self._total)
        return self._remote.remote(job, dict(ids))

    def _result(self, reference: Any, ids: Mapping[str, int]) -> Iterator[EncodedBatch]:
        """Yield the result of one batch. If its worker crashes, split the batch to find the file that causes it."""
        errors = self._ray.exceptions
        try:
            yield self._ray.get(reference)
            return
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError):
            pass
        if len(ids) == 1:  # treated as unreachable, so the next index retries it
            file = ScannedFile(next(iter(ids)), -1, -1, reason="the worker crashed reading this file")
            yield EncodedBatch([file], [], None)
            return
        middle = len(ids) // 2
        for part in (list(ids.items())[:middle], list(ids.items())[middle:]):
            yield from self._result(self._submit(dict(part)), dict(part))


class _Digests:
    """Digests as one sorted array, shared by all processes of a node."""

    def __init__(self, ordered: np.ndarray) -> None:
        self._ordered = ordered

    def __contains__(self, digest: object) -> bool:
        found = self._ordered[np.searchsorted(self._ordered, np.array(digest, "S16")) :][:1]
        return bool((found == np.array(digest, "S16")).any())


# Workers are reused for many batches, so each caches its model.
_models: Final[dict[str, Model]] = {}


def _encode_there(job: _Job, ids: Mapping[str, int]) -> EncodedBatch:
    """Encode files on a node, and write rows for the new and changed ones."""
    import ray

    if job.version != __version__:
        raise GalleryError(
            f"{socket.gethostname()} has andornot {__version__}, and this is {job.version}: "
            "install the same version on every node"
        )
    model = _model_there(job.storage, job.state)
    model.reserve(job.total)
    batch = next(encode_files(list(ids), model, _Digests(ray.get(job.known[0])), threads=_THREADS))
    files = [_with_host(item) for item in batch.files]
    if batch.extracted is None:
        return EncodedBatch(files, [], None)
    places = {digest: place for place, digest in enumerate(batch.digests)}
    fresh = {item: ids[item.path] for item in files if not item.reason and item.digest in places}
    part = batch.extracted.select([places[item.digest] for item in fresh])
    records = [item.record(identity) for item, identity in fresh.items()]
    rows = encoded_rows(job.storage, job.state, model, records, part)
    fragments = write_rows(job.storage, job.storage.open(), rows)
    written = WrittenRows(
        [json.dumps(fragment.to_json()) for fragment in fragments], {record.path: record.id for record in records}
    )
    return EncodedBatch(files, batch.digests, None, written)


def _model_there(storage: Storage, state: State) -> Model:
    if state.model_id not in _models:
        import torch

        torch.set_num_threads(1)  # before the model creates sessions with this setting
        _models.clear()
        _models[state.model_id] = load_model(storage, state)
    return _models[state.model_id]


def _with_host(item: ScannedFile) -> ScannedFile:
    """Return an unreadable file with the node's name in the reason, because other nodes may be able to read it."""
    return item._replace(reason=f"{item.reason} (on {socket.gethostname()})") if item.is_out_of_reach else item


# --- searching ------------------------------------------------------------------------------------------------------


class ShardActor:
    """A shard on a node, for the most recently requested versions of a gallery."""

    def __init__(self, storage: Storage, number: int, count: int, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._storage, self._number, self._count = storage, number, count
        self._shards: dict[int, Shard] = {}

    def call(self, version: int, method: str, *arguments: Any) -> Any:
        """Call a method of the shard of a version."""
        return getattr(self._shard(version), method)(*arguments)

    def _shard(self, version: int) -> Shard:
        if version not in self._shards:
            table = ImageTable.open(self._storage, version)
            model = _model_there(self._storage, table.state)
            former = next(reversed(self._shards.values()), None)
            self._shards[version] = (
                Shard(table, model, self._number, self._count) if former is None else former.for_version(table, model)
            )
            while len(self._shards) > _VERSIONS:
                del self._shards[next(iter(self._shards))]
        return self._shards[version]


class RayShards:
    """The shards of a version of a gallery on the nodes of a cluster."""

    def __init__(self, cluster: Cluster, ray: Any, actors: list[Any], version: int) -> None:
        self._cluster, self._ray, self._actors, self._version = cluster, ray, actors, version

    @classmethod
    def open(cls, cluster: Cluster, table: ImageTable, count: int | None) -> RayShards:
        """Start an actor for each shard; Ray restarts crashed ones."""
        ray, _ = cluster.connect()
        with cluster.translated(ray):
            processors = int(ray.cluster_resources().get("CPU", 1))
            number = count or processors
            # Shards reserve no processor: indexing on the same cluster would otherwise wait forever.
            options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
            remote = ray.remote(**options, scheduling_strategy="SPREAD")(ShardActor)
            threads = max(1, processors // number)
            actors = [remote.remote(table.storage, place, number, threads) for place in range(number)]
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
    """Return whether it is a loopback address, which Ray would replace by an external one."""
    match = _ADDRESS.fullmatch(address)
    return match is not None and match["host"] in ("localhost", "127.0.0.1", "[::1]")


def _check_answers(address: str) -> None:
    """Raise a GalleryError within seconds if no Ray cluster answers at the address; Ray's timeout is much longer."""
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
