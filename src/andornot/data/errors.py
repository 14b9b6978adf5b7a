"""Errors of data sets and images."""

from typing import Literal

from ..errors import AndornotError

# Why an image cannot be read. Programs should check these codes; the wording of reasons may change.
BrokenImageCode = Literal[
    "damaged",  # the decoder fails, or the file ends too early
    "empty-file",
    "missing-package",  # an optional format: install the package to read the image
    "no-permission",
    "not-found",
    "out-of-memory",
    "too-large",  # more pixels, or more memory to decode, than allowed
    "unknown-format",
    "unsupported",  # a video, or a RAW file without a preview
]


class DataError(AndornotError):
    """Raised for an invalid path, source, option or file."""


class BrokenImageError(DataError):
    """Raised for an image that cannot be read: its `name` (usually a path), the `reason` as text, and a `code`."""

    def __init__(self, name: str, reason: str, code: BrokenImageCode = "damaged") -> None:
        self.name = name
        self.reason = reason
        self.code: BrokenImageCode = code
        super().__init__(f"{name}: {reason}")

    def __reduce__(self) -> tuple[type["BrokenImageError"], tuple[str, str, BrokenImageCode]]:
        return type(self), (self.name, self.reason, self.code)
