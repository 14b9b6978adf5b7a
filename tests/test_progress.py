"""How far a long piece of work is: a bar on a terminal, plain lines elsewhere. The clock is a made one."""

from contextlib import suppress

import pytest

from andornot import progress
from andornot.progress import lines, track


class Clock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def work(clock: Clock, total: int, step: int, seconds: float, what: str = "indexing", **options: object) -> None:
    """Does `step` images every so many seconds."""
    with track(what, total, **options) as bar:
        for start in range(0, total, step):
            clock.now += seconds
            bar.update(min(step, total - start))


def test_off_a_terminal_the_first_line_comes_at_once(capsys):
    with lines(), track("indexing", 5008):
        assert capsys.readouterr() == ("", "indexing: 5,008 images\n")


def test_then_a_line_every_quarter_of_a_minute_with_the_rate_and_the_time_left(clock, capsys):
    with lines():
        work(clock, 5008, 48, 1)
    first, *told, last = capsys.readouterr().err.splitlines()
    assert first == "indexing: 5,008 images"
    assert told[0] == "indexing: 720 of 5,008 images, 48 a second, 89 s left"
    assert told[-1] == "indexing: 4,320 of 5,008 images, 48 a second, 14 s left"
    assert len(told) == 105 // 15 - 1
    assert last == "indexing: done, 5,008 images in 2 min"


def test_many_short_pieces_of_work_are_no_flood(clock, capsys):
    with lines():
        for number in range(100):
            work(clock, 10, 5, 0.5, f"piece {number}")
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["piece 0: 10 images", "piece 15: 10 images"]
    assert len(told) == 7


def test_short_work_says_nothing_but_its_first_line(clock, capsys):
    with lines():
        work(clock, 100, 10, 1)
    assert capsys.readouterr().err == "indexing: 100 images\n"


def test_slow_work_and_what_else_is_to_be_told(clock, capsys):
    with lines(), track("pretraining", 10_000, done=4000) as bar:
        bar.note(loss="0.71", spread="0.2")
        clock.now += 400
        bar.update(100)
        bar.say("epoch 1: knn 0.9")
    assert capsys.readouterr().err.splitlines() == [
        "pretraining: 4,000 of 10,000 images are done",
        "pretraining: 4,100 of 10,000 images, 0.25 a second, 6.6 h left, loss 0.71, spread 0.2",
        "epoch 1: knn 0.9",
        "pretraining: done, 4,100 images in 7 min",
    ]


def test_work_that_fails_is_not_called_done(clock, capsys):
    with suppress(KeyboardInterrupt), lines(), track("indexing", 100) as bar:
        clock.now += 20
        bar.update(10)
        raise KeyboardInterrupt
    told = capsys.readouterr().err
    assert "10 of 100" in told
    assert "done" not in told


def test_without_a_command_nothing_is_said_off_a_terminal_unless_asked(clock, capsys):
    work(clock, 100, 10, 10)
    work(clock, 100, 10, 10, shown=False)
    with lines():
        work(clock, 100, 10, 10, shown=False)
        work(clock, 0, 10, 10)
        work(clock, 1, 1, 100)
    assert capsys.readouterr() == ("", "")
    work(clock, 100, 10, 10, shown=True)
    assert "indexing: 20 of 100 images, 1 a second, 80 s left" in capsys.readouterr().err


def test_on_a_terminal_a_bar_is_there_at_once(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with track("indexing", 300) as bar:
        assert "indexing:   0%" in capsys.readouterr().err
        bar.note(broken=2)
        bar.update(300)
        bar.say("a line")
    told = capsys.readouterr().err
    assert "a line\n" in told
    assert "300/300" in told
    with track("encoding", 300, delay=60) as bar:
        bar.update(300)
    assert capsys.readouterr().err == ""
