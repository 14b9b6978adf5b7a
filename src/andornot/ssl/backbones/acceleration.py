"""Encode images on a CPU with ONNX Runtime in about half the time, falling back to torch if that fails.

A backbone is exported once. The export is cached per user under a digest of the weights, written by one process at a
time, verified when it is read, and exported again if it is damaged. The least recently used exports are evicted.
"""

import copy
import hashlib
import io
import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from ...data.cache import default_cache_folder
from ...files import write_atomically
from .backbone import Backbone, BackboneError, hash_tensors
from .inference import agree, optimise_for_inference

_FORMAT: Final = 2
_ENDING: Final = ".network"
_CACHE_BYTES: Final = 500_000_000
_SECONDS_TO_WAIT: Final = 60
# An export takes up to a second, as long as encoding 50 images with torch: it does not pay off for few images.
_WORTHWHILE: Final = 256 * 224 * 224

# An export changes global state of torch, which all threads share.
_exporting: Final = threading.Lock()

Maps = Callable[[Tensor], Tensor]


def is_worthwhile(count: int, size: int) -> bool:
    """Return whether accelerating a backbone pays off for `count` images of this size."""
    return count * size**2 >= _WORTHWHILE


def accelerate(backbone: Backbone, size: int) -> Maps:
    """Return a faster `backbone.maps`, equal to 1e-4 (relative), for images of this size (any size with a `stride`).

    On a CPU it uses ONNX Runtime, or warns and uses torch if that fails. On other devices it only applies
    `optimise_for_inference`.
    """
    if backbone._scale.device.type != "cpu" or backbone._scale.dtype != torch.float32:
        return optimise_for_inference(backbone).maps
    try:
        session = _checked_session(backbone, size)
    except Exception as error:  # exporting a custom network may raise any exception
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        warnings.warn(f"{backbone.name} is computed by torch, not by ONNX Runtime: {reason}", stacklevel=2)
        return optimise_for_inference(backbone).maps

    def maps(images: Tensor) -> Tensor:
        backbone._check(images)
        return _run(session, images.expand(-1, backbone.channels, -1, -1))

    return maps


def _checked_session(backbone: Backbone, size: int) -> Any:
    """Return a session, cached or newly exported, after checking that its output equals torch's."""
    square = _examples(backbone.channels, size)
    # Export a copy in eval mode: in training mode, the examples would update the statistics of batch norms.
    network = copy.deepcopy(backbone).eval()
    examples = [square] if backbone.stride is None else [square, square[:, :, : -backbone.stride]]
    with torch.no_grad():
        wanted = [network.maps(images) for images in examples]
    if not wanted[0].flatten(1).any(1).all():
        raise BackboneError("its activations are all zero, so they cannot be compared with those of torch")

    def checked(exported: bytes) -> Any:
        session = _session(exported)
        for images, maps in zip(examples, wanted, strict=True):
            if not all(map(agree, _run(session, images), maps)):
                raise BackboneError("ONNX output differs from PyTorch")
        return session

    with _entry(_key(backbone, size)) as file:
        kept = _read(file)
        if kept is not None:
            with suppress(Exception):  # made by older code or on another machine: export again
                return checked(kept)
        exported = _export(backbone, size)
        session = checked(exported)
        _write(file, exported)
        return session


def _examples(channels: int, size: int) -> Tensor:
    """Return four random test images: noise, a gradient, waves, and rectangles like the objects of a scene.

    They differ between processes, so that no cached file can be crafted to pass the check on fixed images only.
    """
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7), "big"))

    def draw(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    across, down = torch.linspace(0, 1, size), torch.linspace(0, 1, size)[:, None]
    slopes = draw(2, channels, 1, 1)
    gradient = (slopes[0] * across + slopes[1] * down) / 2
    frequencies = 40 * draw(2, channels, 1, 1)
    waves = 0.5 + 0.5 * torch.sin(frequencies[0] * across + frequencies[1] * down)
    scene = draw(channels, 1, 1).expand(channels, size, size).clone()
    for _ in range(8):
        (top, bottom), (left, right) = (draw(2, 2) * size).long().sort().values.tolist()
        scene[:, top : bottom + 1, left : right + 1] = draw(channels, 1, 1)
    return torch.stack([draw(channels, size, size), gradient, waves, scene])


def _session(exported: bytes) -> Any:
    # Imported here because the import is slow, and searches that encode nothing do not need it.
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # do not use CPU time while waiting
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])


def _run(session: Any, images: Tensor) -> Tensor:
    return torch.from_numpy(session.run(None, {"images": images.contiguous().numpy()})[0])


class _Maps(nn.Module):
    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Tensor:
        return self.backbone.maps(images)


def _export(backbone: Backbone, size: int) -> bytes:
    # Call eval() on the wrapper: the exporter restores its mode, and with it that of all its children.
    network = _Maps(optimise_for_inference(backbone)).eval()
    axes = {0: "batch"} if backbone.stride is None else {0: "batch", 2: "height", 3: "width"}
    file: Any = io.BytesIO()
    with _quiet_and_plain():
        torch.onnx.export(
            network,
            (torch.zeros(2, backbone.channels, size, size),),
            file,
            dynamo=False,
            input_names=["images"],
            output_names=["maps"],
            dynamic_axes={"images": axes, "maps": axes},
        )
    return bytes(file.getvalue())


@contextmanager
def _quiet_and_plain() -> Iterator[None]:
    """Silence the exporter, and disable the fast path of attention, which it cannot export."""
    with _exporting, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shortcuts, log = torch.backends.mha.get_fastpath_enabled(), torch._C._jit_onnx_log
        torch.backends.mha.set_fastpath_enabled(False)
        torch._C._jit_onnx_log = lambda *_: None  # it would print the whole graph on failure
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(shortcuts)
            torch._C._jit_onnx_log = log


# The cache


def _key(backbone: Backbone, size: int) -> str:
    import onnxruntime

    described = [_FORMAT, backbone.config, size, backbone.mean, backbone.std, torch.__version__]
    header = json.dumps([*described, onnxruntime.__version__], default=str)
    return hash_tensors(backbone.state_dict(), header)[:32]


@contextmanager
def _entry(key: str) -> Iterator[Path | None]:
    """Lock and yield the cache file of a key; None if the cache folder cannot be used.

    Anyone who can write to the folder can change what is computed, so only a folder of this user is used.
    """
    folder = default_cache_folder() / "networks"
    file = folder / f"{key}{_ENDING}"
    lock = FileLock(folder / f"{key}.lock", timeout=_SECONDS_TO_WAIT)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_own(folder) and folder.stat().st_mode & 0o022:
            folder.chmod(0o700)
        lock.acquire()
    except (OSError, Timeout):
        yield file if _is_own(folder) and _is_own(file) else None
        return
    if not _is_own(folder):
        lock.release()
        yield None
        return
    try:
        yield file
    finally:
        lock.release()


def _is_own(path: Path) -> bool:
    """Return whether a file or folder exists and belongs to this user or root; True without file owners."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return not hasattr(os, "geteuid") or owner in (os.geteuid(), 0)


def _read(file: Path | None) -> bytes | None:
    """Return the exported network in a cache file; None if its checksum is wrong."""
    try:
        content = b"" if file is None or not _is_own(file) else file.read_bytes()
    except OSError:
        return None
    if file is None or hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    with suppress(OSError):
        os.utime(file)  # mark as recently used
    return content[32:]


def _write(file: Path | None, exported: bytes) -> None:
    if file is None:
        return
    with suppress(OSError):  # full disk or read-only folder: the next process exports again
        _make_room(file.parent, len(exported))
        content = hashlib.sha256(exported).digest() + exported
        write_atomically(file, lambda partial: partial.write_bytes(content))


def _make_room(folder: Path, needed: int) -> None:
    room = _CACHE_BYTES - needed
    for file in sorted(folder.glob(f"*{_ENDING}"), key=lambda file: file.stat().st_mtime, reverse=True):
        room -= file.stat().st_size
        if room < 0:
            file.unlink(missing_ok=True)
            file.with_suffix(".lock").unlink(missing_ok=True)
