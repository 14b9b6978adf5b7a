"""The memory of this machine, and an error for what cannot fit."""

import os

from .errors import AndornotError


class NotEnoughMemoryError(AndornotError):
    """Something that takes more memory than this machine has."""


def total_memory() -> int | None:
    """Return the bytes of physical memory, or None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(needed: int, what: str, advice: str) -> None:
    """Raise a NotEnoughMemoryError, before anything is allocated, if `needed` bytes are more than there are."""
    total = total_memory()
    if total is not None and needed > total:
        raise NotEnoughMemoryError(
            f"{what} takes about {needed / 1e9:,.0f} GB of memory, and this machine has {total / 1e9:,.0f}; {advice}"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory could not be allocated; torch has no class for that on a CPU."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error) or "out of memory" in str(error)
