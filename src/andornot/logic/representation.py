"""`Representation`: N features of an image, each with a distribution over M truth values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Final, NoReturn, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from ..notebook import Bar, bars
from . import godel

# The allowed deviation of a row's sum from 1: a few rounding errors for half precision, and more than a softmax needs
# for the others (computed in float32 in the case of float64), but small enough to detect mistakes.
_SUM_TOLERANCE: Final = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}

# The lower bound of probabilities in logarithms, which keeps distances finite.
PROBABILITY_FLOOR: Final = 1e-12


class Representation:
    """The features of images: for each of N features, probabilities over the truth values 0, 1/(M-1), …, 1.

    There may be any leading dimensions: `(N, M)` is one image, `(B, N, M)` a batch; operators broadcast over them.
    Representations are immutable; operators return new ones.

    >>> a = Representation([[0.1, 0.9], [0.8, 0.2]])   # one image, N = 2 features, M = 2 truth values
    >>> b = Representation([[0.7, 0.3], [0.4, 0.6]])
    >>> (a | b).degrees                                # the features of both
    tensor([0.9300, 0.6800])
    >>> (a & b).degrees                                # what they share
    tensor([0.2700, 0.1200])
    >>> (~a).degrees                                   # the opposite
    tensor([0.1000, 0.8000])
    >>> a
    Representation(N=2, M=2, float32)
    """

    def __init__(self, probs: Any, *, validate: bool = True) -> None:
        """Create a representation from probabilities `(..., N, M)` (tensor, array or lists) that sum to 1 over M.

        `validate=False` skips all checks, for performance.
        """
        if validate:
            probs = _as_floating_tensor(probs)
            _check_shape(probs)
            _check_values(probs)
        self._probs: Tensor = probs
        self._unclamped_log_probs: Tensor | None = None

    @classmethod
    def from_logits(cls, logits: Any, temperature: float = 1.0, *, validate: bool = True) -> Representation:
        """Compute the softmax over the last dimension of `logits / temperature`, `(..., N, M)`. Eqs. (p_2), (z_2).

        >>> Representation.from_logits([[0.0, 0.1]], temperature=0.1).probs
        tensor([[0.2689, 0.7311]])
        """
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, got {temperature}")
        if validate:
            logits = _as_floating_tensor(logits)
            _check_shape(logits)
            _check_finite(logits)
        # On a CPU, torch's softmax is ten times slower along a short last dimension (M) than along any other.
        columns = (logits / temperature).transpose(-1, -2).contiguous()
        if not columns.requires_grad:
            return cls(columns.softmax(-2).transpose(-1, -2).contiguous(), validate=False)
        # Training needs a gradient even for probabilities that underflow, so keep unclamped logarithms.
        log_probs = columns.to(wide_dtype(columns.dtype)).log_softmax(-2).transpose(-1, -2).contiguous()
        result = cls(log_probs.exp().to(columns.dtype), validate=False)
        result._unclamped_log_probs = log_probs
        return result

    @classmethod
    def stack(cls, representations: Sequence[Representation], dim: int = 0) -> Representation:
        """Join representations of equal shape along a new leading dimension."""
        return cls._join(torch.stack, representations, dim, new_dimensions=1)

    @classmethod
    def cat(cls, representations: Sequence[Representation], dim: int = 0) -> Representation:
        """Join batches along an existing leading dimension."""
        return cls._join(torch.cat, representations, dim, new_dimensions=0)

    @classmethod
    def _join(
        cls,
        join: Callable[..., Tensor],
        representations: Sequence[Representation],
        dim: int,
        new_dimensions: int,
    ) -> Representation:
        representations = list(representations)
        if not representations:
            raise ValueError("nothing to join: give at least one representation")
        check_same_features(representations)
        leading = len(representations[0].batch_shape) + new_dimensions
        if not -leading <= dim < leading:
            raise IndexError(f"dim {dim} is not one of the {leading} leading dimensions")
        return cls(join([r.probs for r in representations], dim=dim % leading), validate=False)

    @property
    def probs(self) -> Tensor:
        """The probabilities, `(..., N, M)`."""
        return self._probs

    @property
    def degrees(self) -> Tensor:
        """Feature-possession degrees: the expected truth values, `(..., N)`, each from 0 to 1."""
        wide = wide_dtype(self.dtype)
        values = torch.linspace(0, 1, self.num_values, device=self.device, dtype=wide)
        # Not a matrix product, because autocast would round its operands to half precision.
        return (self._probs.to(wide) * values).sum(-1).to(self.dtype)

    @cached_property
    def _constant_log_probs(self) -> Tensor:
        return _log(self._probs)

    @property
    def log_probs(self) -> Tensor:
        """Logarithms of the probabilities, `(..., N, M)`, float32 or wider; not below log 1e-12.

        Cached after the first call, unless gradients are required, because a graph can only be used for one backward
        pass. Without a lower bound if created by `from_logits` with gradients.
        """
        if self._unclamped_log_probs is not None:
            return self._unclamped_log_probs
        return _log(self._probs) if self._probs.requires_grad else self._constant_log_probs

    @property
    def num_features(self) -> int:
        """The number of features, N."""
        return self._probs.shape[-2]

    @property
    def num_values(self) -> int:
        """The number of truth values, M."""
        return self._probs.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        """The leading dimensions; empty for a single image."""
        return self._probs.shape[:-2]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the probabilities."""
        return self._probs.dtype

    @property
    def device(self) -> torch.device:
        """The device of the probabilities."""
        return self._probs.device

    def to(self, *args: Any, **kwargs: Any) -> Representation:
        """Convert to another device or dtype, as `torch.Tensor.to` does."""
        return Representation(self._probs.to(*args, **kwargs), validate=False)

    def detach(self) -> Representation:
        """Return the same values without gradient: the paper's stopgrad."""
        return Representation(self._probs.detach(), validate=False)

    def __or__(self, other: Representation) -> Representation:
        """Return the OR: the features of either. Eq. (or_operation)."""
        return combine(godel.disjunction, self, other) if isinstance(other, Representation) else NotImplemented

    def __and__(self, other: Representation) -> Representation:
        """Return the AND: the features that both share. Eq. (and_operation)."""
        return combine(godel.conjunction, self, other) if isinstance(other, Representation) else NotImplemented

    def __invert__(self) -> Representation:
        """Return the NOT: 1 - A for each feature. Eq. (not_operation)."""
        return Representation(godel.negation(self._probs), validate=False)

    def __sub__(self, other: Representation) -> Representation:
        """Return the difference max(0, A - B) for each feature, with independent operands.

        It differs from the paper's `self & ~other`, which is min(A, 1 - B), and works better in retrieval
        (docs/results.md).
        """
        return combine(godel.minus, self, other) if isinstance(other, Representation) else NotImplemented

    def without(self, other: Representation, *, keep: Representation) -> Representation:
        """Return the paper's `self & ~other`, but keep features of `other` that `keep` has too.

        This is the paper's relative negation `self & (~other | (keep & other))`, with independent operands. Use
        `self - other` to remove all of `other`.
        """
        return self & (~other | (keep & other))

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("a single image's representation has no len(); num_features is N")
        return self.batch_shape[0]

    def __getitem__(self, index: Any) -> Representation:
        """Index the leading dimensions; features and truth values cannot be indexed."""
        keys = index if isinstance(index, tuple) else (index,)
        used = sum(_dimensions_used(key) for key in keys)
        if used > len(self.batch_shape):
            raise IndexError(
                f"{used} indices for {len(self.batch_shape)} leading dimensions: "
                "features are not indexed here, use .probs[...] or .degrees[...]"
            )
        has_ellipsis = any(key is ... for key in keys)
        whole = (slice(None), slice(None)) if has_ellipsis else ()
        return Representation(self._probs[(*keys, *whole)], validate=False)

    def __iter__(self) -> Iterator[Representation]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Return a single bool: whether shapes and all probabilities are equal. See `isclose` for a tolerance."""
        if not isinstance(other, Representation):
            return NotImplemented
        mine, theirs = self._probs, other._probs
        if mine.shape != theirs.shape:
            return False
        dtype = torch.promote_types(mine.dtype, theirs.dtype)
        return torch.equal(mine.to(dtype), theirs.to(mine.device, dtype))

    __hash__ = None  # type: ignore[assignment]  # tensors are mutable

    def isclose(self, other: Representation, tolerance: float | None = None) -> bool:
        """Return whether no probability differs by more than `tolerance` (default: depends on the dtype)."""
        if not isinstance(other, Representation):
            raise TypeError(f"expected a Representation, got {type(other).__name__}")
        if self.probs.shape != other.probs.shape:
            return False
        dtype = torch.promote_types(self.dtype, other.dtype)
        gap = (self.probs.to(dtype) - other.probs.to(self.device, dtype)).abs()
        return bool((gap <= (_SUM_TOLERANCE[dtype] if tolerance is None else tolerance)).all())

    def __bool__(self) -> NoReturn:
        raise TypeError('a representation is neither true nor false: write &, | and ~, not "and", "or" and "not"')

    def __repr__(self) -> str:
        batch = f"batch={tuple(self.batch_shape)}, " if self.batch_shape else ""
        dtype = str(self.dtype).removeprefix("torch.")
        device = "" if self.device.type == "cpu" else f", {self.device}"
        return f"Representation({batch}N={self.num_features}, M={self.num_values}, {dtype}{device})"

    def _repr_html_(self) -> str:
        return _show(self)


def combine(kernel: Callable[..., Tensor], *operands: Representation) -> Representation:
    """Apply a function of probability tensors `(..., M)` to representations, in float32 or wider."""
    check_same_features(operands)
    dtype = operands[0].dtype
    for operand in operands[1:]:
        dtype = torch.promote_types(dtype, operand.dtype)
    wide = wide_dtype(dtype)
    with _full_precision(operands[0].device.type):
        return Representation(kernel(*(r.probs.to(wide) for r in operands)).to(dtype), validate=False)


def _full_precision(device_type: str) -> AbstractContextManager[object]:
    """Disable autocast, which would round products to half precision."""
    if torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def common_shape(operands: Sequence[Representation]) -> torch.Size:
    """Return the shape `(..., N, M)` that the operands broadcast to."""
    # torch.broadcast_shapes would import sympy, which takes half a second.
    return torch.Size(np.broadcast_shapes(*(operand.probs.shape for operand in operands)))


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype to compute in: float32 for half precision, else the dtype itself."""
    return torch.promote_types(dtype, torch.float32)


def check_same_features(operands: Sequence[Representation], *, broadcast: bool = True) -> None:
    """Raise a ValueError unless all have the same N and M and, with `broadcast`, compatible leading dimensions."""
    for operand in operands:
        if not isinstance(operand, Representation):
            raise TypeError(f"expected a Representation, got {type(operand).__name__}")
    first = operands[0]
    for operand in operands[1:]:
        if first.probs.shape[-2:] != operand.probs.shape[-2:]:
            raise ValueError(
                f"representations differ: N={first.num_features}, M={first.num_values} and "
                f"N={operand.num_features}, M={operand.num_values}; only those of one model can be combined"
            )
    if broadcast:
        try:
            common_shape(operands)
        except ValueError:
            shapes = ", ".join(dict.fromkeys(str(tuple(operand.batch_shape)) for operand in operands))
            raise ValueError(f"leading dimensions do not broadcast: {shapes}") from None


def _log(probs: Tensor) -> Tensor:
    return probs.to(wide_dtype(probs.dtype)).clamp(min=PROBABILITY_FLOOR).log()


def _dimensions_used(key: Any) -> int:
    if key is None or key is ...:
        return 0
    if isinstance(key, Tensor) and key.dtype == torch.bool:
        return key.ndim
    if not isinstance(key, (SupportsIndex, slice, Tensor, Sequence)) and not hasattr(key, "__array__"):
        raise TypeError(f"cannot index a representation with {type(key).__name__}")
    return 1


def _as_floating_tensor(values: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"expected numbers of shape (..., N, M), got {type(values).__name__}: {error}") from None
    if tensor.dtype not in _SUM_TOLERANCE:
        if tensor.is_complex() or tensor.is_floating_point():
            raise TypeError(f"expected float16, bfloat16, float32 or float64, got {tensor.dtype}")
        tensor = tensor.to(torch.get_default_dtype())
    return tensor


def _check_shape(tensor: Tensor) -> None:
    shape = tuple(tensor.shape)
    if len(shape) < 2 or shape[-2] < 1 or shape[-1] < 2:
        raise ValueError(f"expected shape (..., N, M) with N ≥ 1 features of M ≥ 2 truth values each, got {shape}")


def _check_finite(tensor: Tensor) -> None:
    _refuse_first(~tensor.isfinite(), tensor, "is not a finite number")


def _check_values(probs: Tensor) -> None:
    _check_finite(probs)
    _refuse_first(probs < 0, probs, "is negative, and a probability cannot be; for logits use from_logits")
    sums = probs.to(wide_dtype(probs.dtype)).sum(-1)
    tolerance = _SUM_TOLERANCE[probs.dtype]
    _refuse_first(
        (sums - 1).abs() > tolerance,
        sums,
        f"is the sum of a row over its M truth values, and must be 1 (± {tolerance:g}); "
        "divide by the sum, or use from_logits for logits",
    )


def _refuse_first(bad: Tensor, values: Tensor, complaint: str) -> None:
    if bad.device.type != "meta" and bool(bad.any()):
        where = tuple(bad.nonzero()[0].tolist())
        raise ValueError(f"{values[where].item():.8g} at {list(where)} {complaint}")


# --- notebooks --------------------------------------------------------------------------------------------------------

_IMAGES_SHOWN: Final = 6
_FEATURES_SHOWN: Final = 10


def _show(representation: Representation) -> str:
    """Show the strongest features of the first images, with degrees and distributions."""
    count = representation.num_features
    flat = representation.detach().to("cpu").probs.reshape(-1, count, representation.num_values)
    images = [type(representation)(probs, validate=False) for probs in flat[:_IMAGES_SHOWN]]
    headings = [f"image {number}" if representation.batch_shape else "" for number in range(len(images))]
    shown = "all features" if count <= _FEATURES_SHOWN else f"the {_FEATURES_SHOWN} strongest features"
    if len(flat) > _IMAGES_SHOWN:
        shown += f" of the first {_IMAGES_SHOWN} images"
    groups = list(zip(headings, map(_strongest, images), strict=True))
    return bars(repr(representation), groups, f"({shown}: degree, and probabilities of the truth values from 0 to 1)")


def _strongest(image: Representation) -> list[Bar]:
    """Return all features if there are few, else the strongest."""
    degrees = image.degrees
    few = len(degrees) <= _FEATURES_SHOWN
    chosen = range(len(degrees)) if few else degrees.topk(_FEATURES_SHOWN).indices.tolist()
    return [Bar(f"feature {number}", degrees[number].item(), image.probs[number].tolist()) for number in chosen]
