"""What can go wrong with pictures, in one line for the person who reads it."""

from ..errors import AndornotError


class DataError(AndornotError):
    """A mistake in what was asked for: a path, a source, an option or a file that is not what it should be."""


class BrokenImageError(DataError):
    """A picture that cannot be read: its `name` (a path, mostly) and the `reason`."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")

    def __reduce__(self) -> tuple[type["BrokenImageError"], tuple[str, str]]:
        return type(self), (self.name, self.reason)
