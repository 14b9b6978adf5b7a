"""Progress on stderr: a tqdm bar on a terminal, otherwise plain lines, because tqdm writes carriage returns."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Protocol

# The minimum time between two lines, to keep logs short.
SECONDS: Final = 15.0


class Progress(Protocol):
    """Reports the progress of a task to the user."""

    def __enter__(self) -> "Progress": ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def update(self, count: int) -> None:
        """Count finished items."""

    def note(self, **figures: object) -> None:
        """Set figures to show with the next update."""

    def say(self, text: str) -> None:
        """Print a line immediately."""


def track(
    what: str, total: int, unit: str = "images", *, done: int = 0, shown: bool | None = None, delay: float = 0
) -> Progress:
    """Show the progress of `what`: `with track("indexing", 5008) as progress: … progress.update(64)`.

    `shown`: by default, a bar on a terminal, and otherwise lines if they were enabled by `lines`. `done`: the number of
    items that are already finished. `delay`: seconds before a bar appears, for work that is usually short.
    """
    if shown is False or total - done <= 1:  # a single item has no progress to show
        return _Nothing()
    if sys.stderr.isatty():
        return _Bar(what, total, unit, done, delay)
    if shown or _speaker is not None:
        return _Lines(what, total, unit, done, _speaker or _Speaker())
    return _Nothing()


@contextmanager
def lines() -> Iterator[None]:
    """Show progress as plain lines, instead of a bar, if stderr is not a terminal."""
    global _speaker
    before, _speaker = _speaker, _Speaker()
    try:
        yield
    finally:
        _speaker = before


class _Speaker:
    """Prints lines at a limited rate across all tasks, so that many short tasks do not flood the log."""

    def __init__(self) -> None:
        self._last: float | None = None

    @property
    def is_due(self) -> bool:
        return self._last is None or time.monotonic() - self._last >= SECONDS

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self._last = time.monotonic()


_speaker: _Speaker | None = None


class _Nothing:
    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int) -> None:
        pass

    def note(self, **figures: object) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class _Bar:
    def __init__(self, what: str, total: int, unit: str, done: int, delay: float) -> None:
        from tqdm import tqdm

        self._bar: tqdm[Any] = tqdm(
            total=total,
            initial=done,
            desc=what,
            unit=f" {unit}",
            unit_scale=total >= 100_000,
            delay=delay,
            leave=not delay,
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def update(self, count: int) -> None:
        self._bar.update(count)

    def note(self, **figures: object) -> None:
        self._bar.set_postfix(figures, refresh=False)

    def say(self, text: str) -> None:
        self._bar.write(text, sys.stderr)


class _Lines:
    def __init__(self, what: str, total: int, unit: str, done: int, speaker: _Speaker) -> None:
        self._what, self._total, self._unit, self._speaker = what, total, unit, speaker
        self._first = self._done = done
        self._figures: dict[str, object] = {}
        self._start = time.monotonic()
        self._told = False
        if speaker.is_due:
            speaker.say(f"{what}: {f'{done:,} of ' if done else ''}{total:,} {unit}{' are done' if done else ''}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._told and kind is None:
            seconds = time.monotonic() - self._start
            self._speaker.say(f"{self._what}: done, {self._done:,} {self._unit} in {format_duration(seconds)}")

    def update(self, count: int) -> None:
        self._done += count
        if self._speaker.is_due and self._done < self._total:
            self._told = True
            self._speaker.say(self._line())

    def note(self, **figures: object) -> None:
        self._figures = figures

    def say(self, text: str) -> None:
        self._speaker.say(text)

    def _line(self) -> str:
        rate = (self._done - self._first) / max(time.monotonic() - self._start, 1e-9)
        line = f"{self._what}: {self._done:,} of {self._total:,} {self._unit}"
        if rate > 0:
            left = format_duration((self._total - self._done) / rate)
            line += f", {f'{rate:,.0f}' if rate >= 10 else f'{rate:.2g}'} a second, {left} left"
        return line + "".join(f", {name} {figure}" for name, figure in self._figures.items())


def format_duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours.

    >>> format_duration(80), format_duration(600), format_duration(10_000)
    ('80 s', '10 min', '2.8 h')
    """
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
