"""Encoding on the nodes of a Ray cluster. Who writes the gallery is here, and commits what they send, in order.

A node decodes, hashes and encodes some files at a time, and keeps nothing: if it is lost, or the process on it, another
one gets the same files.
"""

import os
import re
import socket
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import numpy as np

from ..model import Model
from ..version import __version__
from . import encoding
from .encoding import Encoded, encode_files
from .errors import GalleryError
from .model_files import pack_model, unpack_model
from .scanning import Scanned

_RIGHT: Final = "write auto, local or ray://host:10001"
_ADDRESS: Final = re.compile(r"(?P<client>ray://)?(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+):(?P<port>\d{1,5})", re.ASCII)
_CONNECT_SECONDS: Final = 5
# A lost process is none of ours: its files are given to another one so often, and then apart from each other.
_RETRIES: Final = 3
# Batches for each processor that are under way: it never waits for the next, and few wait to be committed.
_AHEAD: Final = 3
# While one thread waits for a disk that is far away, the other decodes.
_THREADS: Final = 2
# Before Ray is loaded: it tells nobody that it is used, does not speak of what it will change, and one that is started
# here listens to this machine alone.
_QUIET: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_ONLY_HERE: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class Cluster:
    """A Ray cluster by its address: `encode` is an `Encode`, done there."""

    def __init__(self, address: str) -> None:
        """`auto` is the cluster that RAY_ADDRESS names, or else `local`: one on this machine, made for the occasion."""
        if find_spec("ray") is None:
            raise GalleryError("a cluster needs ray: pip install 'andornot[ray]'")
        self._address = (os.environ.get("RAY_ADDRESS") or "local") if address == "auto" else address
        # "auto" of RAY_ADDRESS is Ray's own word: the cluster that was started on this machine.
        if self._address not in ("local", "auto"):
            _check_answers(self._address)

    def encode(self, paths: Sequence[str], model: Model, known: Collection[bytes]) -> Iterator[Encoded]:
        """As `encode_files`. A process there that is killed loses nothing; the cluster lost is a GalleryError."""
        if not paths:
            return
        with self._connected() as ray:
            try:
                yield from _Run(ray, model, len(paths), known).results(paths)
            except ray.exceptions.RayTaskError as error:
                raise self._told(error) from None
            except (ConnectionError, ray.exceptions.RayError) as error:
                raise self._away(error) from None

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        os.environ.update({key: value for key, value in _QUIET.items() if key not in os.environ})
        if self._address == "local" or _is_here(self._address):
            os.environ.update({key: value for key, value in _ONLY_HERE.items() if key not in os.environ})
        import ray

        if ray.is_initialized():  # whoever did that also ends it
            yield ray
            return
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "CRITICAL"}
        if self._address == "local":
            quiet["include_dashboard"] = False
        try:
            ray.init(self._address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise self._away(error) from None
        try:
            yield ray
        finally:
            ray.shutdown()

    def _away(self, error: BaseException) -> GalleryError:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return GalleryError(
            f"the Ray cluster at {self._address} cannot be reached: {reason}; the same command goes on, nothing is lost"
        )

    def _told(self, error: Any) -> GalleryError:
        cause = error.cause
        if isinstance(cause, GalleryError):
            return GalleryError(str(cause))
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        if "ModuleNotFoundError" in str(error) or "failed to import" in str(error):
            right = f"install andornot {__version__} on every node"
        else:
            right = "the same command goes on, nothing is lost"
        return GalleryError(f"a node of the Ray cluster at {self._address} failed: {lines[-1].strip()}; {right}")


class _Task(NamedTuple):
    """What every node is told: where to get the model and the digests that are known, and how many files there are."""

    version: str
    model_id: str
    model: list[Any]
    known: list[Any]
    total: int


class _Run:
    """The files of one `encode`."""

    def __init__(self, ray: Any, model: Model, count: int, known: Collection[bytes]) -> None:
        self._ray = ray
        self._remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_encode_there)
        digests = np.sort(np.array([*known], "S16"))
        # In lists, or Ray would send the things themselves with every batch.
        self._task = _Task(__version__, model.id, [ray.put(pack_model(model))], [ray.put(digests)], count)

    def results(self, paths: Sequence[str]) -> Iterator[Encoded]:
        """All of them in order, so that pictures get the ids that they would get here."""
        size = encoding.BATCH
        batches = deque(paths[start : start + size] for start in range(0, len(paths), size))
        waiting: deque[tuple[Any, Sequence[str]]] = deque()
        try:
            while batches or waiting:
                while batches and len(waiting) < self._most_waiting():
                    batch = batches.popleft()
                    waiting.append((self._submit(batch), batch))
                yield from self._result(*waiting.popleft())
        finally:
            for reference, _ in waiting:  # stopped by an error or by Ctrl-C: nobody wants the rest
                self._ray.cancel(reference)

    def _most_waiting(self) -> int:
        """Asked again and again: nodes come and go."""
        return max(1, _AHEAD * int(self._ray.cluster_resources().get("CPU", 1)))

    def _submit(self, batch: Sequence[str]) -> Any:
        return self._remote.remote(self._task, batch)

    def _result(self, reference: Any, batch: Sequence[str]) -> Iterator[Encoded]:
        """Of one batch; in parts if whoever takes it up dies: then it may be a file that kills them."""
        errors = self._ray.exceptions
        try:
            yield self._ray.get(reference)
            return
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError, errors.ObjectLostError):
            pass
        if len(batch) == 1:  # out of reach for now: the next index tries again
            yield Encoded([Scanned(batch[0], -1, -1, reason="whoever reads it is killed")], [], None)
            return
        middle = len(batch) // 2
        for part in (batch[:middle], batch[middle:]):
            yield from self._result(self._submit(part), part)


# On the nodes


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


def _encode_there(task: _Task, batch: Sequence[str]) -> Encoded:
    import ray

    if task.version != __version__:
        raise GalleryError(
            f"{socket.gethostname()} has andornot {__version__}, and this is {task.version}: "
            "install the same on every node"
        )
    if task.model_id not in _models:
        import torch

        torch.set_num_threads(1)  # before the model makes sessions with as many
        _models.clear()
        _models[task.model_id] = unpack_model(ray.get(task.model[0]))
    model = _models[task.model_id]
    model.expect(task.total)
    known = _Digests(ray.get(task.known[0]))
    encoded = next(encode_files(batch, model, known, threads=_THREADS))
    return encoded._replace(files=[_placed(item) for item in encoded.files])


def _placed(item: Scanned) -> Scanned:
    """A file that this node cannot see may be there for others: the reason names the node."""
    return item._replace(reason=f"{item.reason} (on {socket.gethostname()})") if item.is_out_of_reach else item


def _is_here(address: str) -> bool:
    """Whether it is the address of a machine for itself, in whose place Ray would take one that others know."""
    match = _ADDRESS.fullmatch(address)
    return match is not None and match["host"] in ("localhost", "127.0.0.1", "[::1]")


def _check_answers(address: str) -> None:
    """A GalleryError, after a few seconds at most, if nobody there speaks Ray's language: Ray itself waits for long."""
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
