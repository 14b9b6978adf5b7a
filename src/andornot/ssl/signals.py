"""What a training does with the signals that would end its process: it stops after its step, and is saved."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
