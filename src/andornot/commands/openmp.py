"""Settings of OpenMP, which torch computes with: threads sleep while they wait, and do not exceed the CPU quota.

By default they spin, which slows down everything on a machine that is shared with others.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# Of GNU's OpenMP, which torch brings for Linux; of Intel's and LLVM's, which others do.
_SLEEP_WHILE_WAITING: Final = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def configure_openmp() -> None:
    """Set environment variables, which torch reads when it is imported; those of the user stay."""
    for name, value in _SLEEP_WHILE_WAITING.items():
        os.environ.setdefault(name, value)
    if (quota := cpu_quota(_QUOTA)) is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(quota))


def cpu_quota(file: Path) -> int | None:
    """Return the CPU quota of a container, if it is less than the number of processors; torch ignores it.

    The file has microseconds of CPU time and of the period: "150000 100000" is one and a half, "max 100000" no limit.
    """
    with suppress(OSError, ValueError):
        used, period = (int(number) for number in file.read_text(encoding="ascii").split())
        granted = max(1, round(used / period))
        return granted if granted < (os.cpu_count() or 1) else None
    return None
