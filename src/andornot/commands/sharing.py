"""How a command shares the processors with others: its threads sleep when they wait, and are no more than it may use.

By default the threads of OpenMP, with which torch and FAISS compute, spin while they wait for each other. On a machine
that others use they wait often, for a thread that is not running, and burn the time that it needs.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# Of GNU's OpenMP, which torch and FAISS bring for Linux; of Intel's and LLVM's, which others do.
_SLEEP_WHILE_WAITING: Final = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def share_processors() -> None:
    """Says so in the environment, which is read when torch is loaded; what the user has set stays."""
    for name, value in _SLEEP_WHILE_WAITING.items():
        os.environ.setdefault(name, value)
    if (quota := processors_granted(_QUOTA)) is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(quota))


def processors_granted(file: Path) -> int | None:
    """How many processors a container may use, where that is fewer than there are: torch counts only those.

    The file of Linux says how many microseconds of how many: "150000 100000" is one and a half, "max 100000" no limit.
    """
    with suppress(OSError, ValueError):
        used, period = (int(number) for number in file.read_text(encoding="ascii").split())
        granted = max(1, round(used / period))
        return granted if granted < (os.cpu_count() or 1) else None
    return None
