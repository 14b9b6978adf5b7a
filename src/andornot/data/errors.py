"""Errors of data sets and images."""

from typing import Literal

from ..errors import AndornotError

# Why an image cannot be read. Programs look at these codes; the reasons in words may change.
BrokenImageCode = Literal[
    "damaged",  # the decoder fails, or the file ends too early
    "empty-file",
    "missing-package",  # of an optional format: the image can be read once the package is installed
    "no-permission",
    "not-found",
    "out-of-memory",
    "too-large",  # more pixels, or more memory to decode, than allowed
    "unknown-format",
    "unsupported",  # a video, or a RAW file without a preview
]


class DataError(AndornotError):
    """A path, a source, an option or a file that is not what it should be."""


class BrokenImageError(DataError):
    """An image that cannot be read: its `name` (mostly a path), the `reason` in words, and a `code` for programs."""

    def __init__(self, name: str, reason: str, code: BrokenImageCode = "damaged") -> None:
        self.name = name
        self.reason = reason
        self.code: BrokenImageCode = code
        super().__init__(f"{name}: {reason}")

    def __reduce__(self) -> tuple[type["BrokenImageError"], tuple[str, str, BrokenImageCode]]:
        return type(self), (self.name, self.reason, self.code)
