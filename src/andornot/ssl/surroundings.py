"""What a training changes about its process while it runs: signals, and the smallest numbers of the CPU."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch


@contextmanager
def without_denormals() -> Iterator[None]:
    """Sharp targets are full of numbers below 1e-38, with which a CPU computes ten times as slowly.

    Only for the training: the rest of the process keeps the numbers it had.
    """
    before = sys.float_info.min / 2 == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Stop:
    """Whether someone asked the training to stop."""

    asked = False


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Turns Ctrl-C and SIGTERM into a request that the loop answers after its step. A second Ctrl-C does not wait."""
    stop = Stop()

    def ask(number: int, _: FrameType | None) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
