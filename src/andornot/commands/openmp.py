"""OpenMP settings for torch: threads sleep while they wait, and their number does not exceed the CPU quota.

By default, waiting threads spin, which slows down other processes on a shared machine.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# The first two are for GNU OpenMP, which torch bundles on Linux; the last is for Intel's and LLVM's.
_SLEEP_WHILE_WAITING: Final = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def configure_openmp() -> None:
    """Set environment variables that torch reads when it is imported; existing ones are kept."""
    for name, value in _SLEEP_WHILE_WAITING.items():
        os.environ.setdefault(name, value)
    if (quota := cpu_quota(_QUOTA)) is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(quota))


def cpu_quota(file: Path) -> int | None:
    """Return the CPU quota of a container, if it is less than the number of processors; torch ignores it.

    The file has the CPU time and the period in microseconds: "150000 100000" means 1.5 processors, "max 100000" no
    limit.
    """
    with suppress(OSError, ValueError):
        used, period = (int(number) for number in file.read_text(encoding="ascii").split())
        granted = max(1, round(used / period))
        return granted if granted < (os.cpu_count() or 1) else None
    return None
