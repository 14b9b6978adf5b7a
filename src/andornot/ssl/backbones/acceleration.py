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
from .errors import BackboneError
from .inference import agree, optimise_for_inference

_FORMAT: Final = 1
_ENDING: Final = ".network"
_CACHE_BYTES: Final = 500_000_000
_SECONDS_TO_WAIT: Final = 60
# An export takes up to a second, and so do 50 photographs: for few pictures torch is done sooner.
_WORTHWHILE: Final = 256 * 224 * 224

# What an export changes in torch is of all threads.
_exporting: Final = threading.Lock()

Maps = Callable[[Tensor], Tensor]


def is_worthwhile(count: int, size: int) -> bool:
    """Whether so many pictures of that side are enough work to accelerate a backbone for."""
    return count * size**2 >= _WORTHWHILE


def accelerate(backbone: Backbone, size: int) -> Maps:
    """`backbone.maps` for encoding pictures of that side, made faster: the same numbers to 1e-4 (relative).

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

    def maps(pictures: Tensor) -> Tensor:
        backbone._check(pictures)
        return _run(session, pictures.expand(-1, backbone.channels, -1, -1))

    return maps


def _checked_session(backbone: Backbone, size: int) -> Any:
    """A session that gives torch's numbers: of the file in the cache, or else of a new export."""
    generator = torch.Generator().manual_seed(0)
    example = torch.rand(1, backbone.channels, size, size, generator=generator)
    with torch.no_grad():
        # Of a copy: in training a batch norm would take the example for data, and another mode has other numbers.
        wanted = copy.deepcopy(backbone).eval().maps(example)

    def checked(exported: bytes) -> Any:
        session = _session(exported)
        if not agree(_run(session, example), wanted):
            raise BackboneError("its numbers there are not those of torch")
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


def _session(exported: bytes) -> Any:
    # Here, because a search that encodes nothing should not wait for it.
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting must not cost others their time
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(exported, options, providers=["CPUExecutionProvider"])


def _run(session: Any, pictures: Tensor) -> Tensor:
    return torch.from_numpy(session.run(None, {"pictures": pictures.contiguous().numpy()})[0])


class _Maps(nn.Module):
    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pictures: Tensor) -> Tensor:
        return self.backbone.maps(pictures)


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
            input_names=["pictures"],
            output_names=["maps"],
            dynamic_axes={"pictures": {0: "batch"}, "maps": {0: "batch"}},
        )
    return bytes(file.getvalue())


@contextmanager
def _quiet_and_plain() -> Iterator[None]:
    """Inside, the exporter says nothing, and torch's attention takes no way that the exporter does not know."""
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
    digest = hashlib.sha256(json.dumps([*described, onnxruntime.__version__], default=str).encode())
    for name, tensor in sorted(backbone.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


@contextmanager
def _entry(key: str) -> Iterator[Path | None]:
    """The file of that key for this process alone, or None where there is no folder to write it to."""
    folder = default_cache_folder() / "networks"
    file = folder / f"{key}{_ENDING}"
    lock = FileLock(folder / f"{key}.lock", timeout=_SECONDS_TO_WAIT)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, Timeout):
        yield file if file.exists() else None
        return
    try:
        yield file
    finally:
        lock.release()


def _read(file: Path | None) -> bytes | None:
    """What was written, if it is that still: its digest stands before it."""
    try:
        content = b"" if file is None else file.read_bytes()
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
