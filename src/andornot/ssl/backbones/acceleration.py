"""Encoding on a CPU by ONNX Runtime: the same feature maps in half the time, or torch's where that does not work.

A backbone is exported once. The file is kept in the user's cache under a digest of its weights, written by one process
at a time, checked as it is read, and made anew if it is damaged; the least recently used make room.
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
from .backbone import Backbone
from .inference import agree, optimise_for_inference
from .weights import BackboneError, hash_tensors

_FORMAT: Final = 1
_ENDING: Final = ".network"
_CACHE_BYTES: Final = 500_000_000
_SECONDS_TO_WAIT: Final = 60
# An export takes up to a second, and so do 50 photographs: for few images torch is done sooner.
_WORTHWHILE: Final = 256 * 224 * 224

# What an export changes in torch is of all threads.
_exporting: Final = threading.Lock()

Maps = Callable[[Tensor], Tensor]


def is_worthwhile(count: int, size: int) -> bool:
    """Return whether accelerating a backbone pays for that many images of that size."""
    return count * size**2 >= _WORTHWHILE


def accelerate(backbone: Backbone, size: int) -> Maps:
    """Return a faster `backbone.maps` for images of that size, equal to 1e-4 (relative).

    On a CPU it is computed by ONNX Runtime, or by torch where that fails, with a warning. On other devices
    `optimise_for_inference` is all there is.
    """
    if backbone._scale.device.type != "cpu" or backbone._scale.dtype != torch.float32:
        return optimise_for_inference(backbone).maps
    try:
        session = _checked_session(backbone, size)
    except Exception as error:  # whatever an exporter may say of a network of someone's own
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        warnings.warn(f"{backbone.name} is computed by torch, not by ONNX Runtime: {reason}", stacklevel=2)
        return optimise_for_inference(backbone).maps

    def maps(images: Tensor) -> Tensor:
        backbone._check(images)
        return _run(session, images.expand(-1, backbone.channels, -1, -1))

    return maps


def _checked_session(backbone: Backbone, size: int) -> Any:
    """Return a session whose output equals torch's: from the cache, or exported now."""
    examples = _examples(backbone.channels, size)
    with torch.no_grad():
        # Of a copy: in training a batch norm would take the examples for data, and another mode has other numbers.
        wanted = copy.deepcopy(backbone).eval().maps(examples)
    if not wanted.flatten(1).any(1).all():
        raise BackboneError("its activations are all zero, so they cannot be compared with those of torch")

    def checked(exported: bytes) -> Any:
        session = _session(exported)
        if not all(map(agree, _run(session, examples), wanted)):
            raise BackboneError("ONNX output differs from PyTorch")
        return session

    with _entry(_key(backbone, size)) as file:
        kept = _read(file)
        if kept is not None:
            with suppress(Exception):  # of code that has changed since, or of another machine: made anew
                return checked(kept)
        exported = _export(backbone, size)
        session = checked(exported)
        _write(file, exported)
        return session


def _examples(channels: int, size: int) -> Tensor:
    """Return four images: noise, a gradient, waves, and rectangles like the objects of a scene.

    They are drawn anew for each process: no file in the cache can be made to fit them and nothing else.
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
    # Here, because a search that encodes nothing should not wait for it.
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting must not cost others their time
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
    # eval() of the whole: torch gives all parts the mode of the whole afterwards.
    network = _Maps(optimise_for_inference(backbone)).eval()
    file: Any = io.BytesIO()
    with _quiet_and_plain():
        torch.onnx.export(
            network,
            (torch.zeros(2, backbone.channels, size, size),),
            file,
            dynamo=False,
            input_names=["images"],
            output_names=["maps"],
            dynamic_axes={"images": {0: "batch"}, "maps": {0: "batch"}},
        )
    return bytes(file.getvalue())


@contextmanager
def _quiet_and_plain() -> Iterator[None]:
    """Silence the exporter, and disable the fast path of attention, which it cannot export."""
    with _exporting, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shortcuts, log = torch.backends.mha.get_fastpath_enabled(), torch._C._jit_onnx_log
        torch.backends.mha.set_fastpath_enabled(False)
        torch._C._jit_onnx_log = lambda *_: None  # a failure would print the whole graph
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

    The folder is the user's alone: whoever writes to it decides what is computed. One of somebody else is not used.
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
        os.utime(file)  # used now: the last to be removed
    return content[32:]


def _write(file: Path | None, exported: bytes) -> None:
    if file is None:
        return
    with suppress(OSError):  # a full disk, or a folder for reading only: the next process exports again
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
