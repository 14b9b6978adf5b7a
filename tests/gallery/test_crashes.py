"""Killed processes and full disks: nothing that was committed is lost, and one line says what is wrong."""

import errno
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from stored import (
    ENOUGH,
    Work,
    assert_same_contents,
    check_rows,
    disturb,
    photos,
    seeing_recipe,
    small_steps,
    table_of,
)

from andornot.gallery import Gallery
from andornot.gallery.errors import LockedError
from andornot.web.browsing import Browser


def same_as_fresh(folder: Path) -> None:
    """Check a gallery against one that was made of the same files without a disturbance."""
    shutil.rmtree(folder / "fresh", ignore_errors=True)
    with small_steps():
        fresh = Gallery.create(folder / "fresh", recipe=seeing_recipe())
        fresh.add(folder / "photos")
    gallery = Gallery.open(folder / "g")
    assert_same_contents(folder / "g", folder / "fresh")
    assert gallery.broken == fresh.broken == {}
    for state in (table_of(folder / "g").state, table_of(folder / "fresh").state):
        assert state.basis
        assert state.codes
    name = Path(gallery.paths[0]).name
    for formula in (f'"{name}"', f'"{name}" and not {gallery.ids[1]}'):
        assert len(gallery.search(formula, top=1000, include_queries=True)) == len(fresh)


def ids_of(gallery: Path) -> dict[str, int]:
    return {record.path: record.id for record in table_of(gallery).records()} if Gallery.exists(gallery) else {}


def kill_often(folder: Path, times: int, works: tuple[str, ...] = ("index",)) -> None:
    """Kill work at random moments of a gallery whose files change all the time."""
    rng = np.random.default_rng(times)
    photos(folder / "photos", 30)
    Work(folder).finish()
    takes: dict[str, float] = {}
    for work in works:
        disturb(folder / "photos", rng, -len(takes))
        takes[work] = Work(folder, work).finish()
    killed = step = 0
    while killed < times:
        step += 1
        work = works[step % len(works)]
        before = ids_of(folder / "g")
        disturb(folder / "photos", rng, step)
        running = Work(folder, work)
        moment = running.begun + rng.random() * takes[work]
        if running.kill_when(lambda moment=moment: time.monotonic() > moment):
            killed += 1
        else:
            assert running.process.exitcode == 0, running.output
            takes[work] *= 0.9
        check_rows(folder / "g")
        Gallery.open(folder / "g").search(str(min(before.values())), top=3)
        after = ids_of(folder / "g")
        assert all(after[path] == before[path] for path in before.keys() & after.keys())
    Work(folder).finish()
    same_as_fresh(folder)


def test_killed_at_telling_moments_it_resumes(tmp_path):
    photos(tmp_path / "photos", 40)
    gallery = tmp_path / "g"

    def at_least(count: int) -> Callable[[], bool]:
        return lambda: Gallery.exists(gallery) and len(table_of(gallery)) >= count

    moments: dict[str, Callable[[], bool]] = {
        "while the model is saved": lambda: any(gallery.glob("model-*")),
        "with the first rows": lambda: any(gallery.glob("images.lance/data/*")),
        "while the basis of regions is fitted": lambda: any(gallery.glob("basis-*")),
        "when all are encoded": at_least(38),
        "while the calibrated model is saved": lambda: len([*gallery.glob("model-*")]) > 1,
        "while indexes are made": lambda: any(gallery.glob("images.lance/_indices/*")),
    }
    least = 0
    for name, reached in moments.items():
        Work(tmp_path).kill_when(reached)
        now = check_rows(gallery)
        assert now >= least, name
        least = now
    Work(tmp_path).finish()
    assert check_rows(gallery) == 40
    same_as_fresh(tmp_path)


def test_killed_at_random_moments_it_resumes(tmp_path):
    kill_often(tmp_path, 4, ("index", "recalibrate"))


@pytest.mark.slow
def test_killed_at_sixty_random_moments_it_resumes(tmp_path):
    kill_often(tmp_path, 60, ("index", "recalibrate", "index"))


@pytest.mark.slow
def test_killed_at_the_fit_of_the_basis_with_the_usual_number_of_images(tmp_path):
    photos(tmp_path / "photos", 530)
    for _ in range(3):
        Work(tmp_path, steps=False).kill_when(lambda: any((tmp_path / "g").glob("basis-*")))
        check_rows(tmp_path / "g")
    Work(tmp_path, steps=False).finish()
    assert check_rows(tmp_path / "g") == 530
    same_as_fresh(tmp_path)


def test_a_recalibration_that_changes_nothing_does_not_touch_the_model(tmp_path):
    """Or, killed at that moment, it would leave the gallery without its model."""
    photos(tmp_path / "photos", ENOUGH)
    Work(tmp_path).finish()
    gallery = Gallery.open(tmp_path / "g")

    def model_files() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in (tmp_path / "g").glob("model-*/*")}

    before, model = model_files(), gallery.model.id
    gallery.recalibrate()
    assert gallery.model.id == model
    assert model_files().items() >= before.items()


def test_what_killed_processes_left_is_removed_in_time(tmp_path):
    photos(tmp_path / "photos", 2 * ENOUGH)
    Work(tmp_path).finish()
    models = len([*(tmp_path / "g").glob("model-*")])
    photos(tmp_path / "photos", 3, start=100)
    running = Work(tmp_path, "recalibrate")
    running.kill_when(lambda: len([*(tmp_path / "g").glob("model-*/model.json")]) > models)
    with small_steps():
        gallery = Gallery.open(tmp_path / "g")
        gallery.update()
        gallery.recalibrate()
        gallery.update()
    state = table_of(tmp_path / "g").state
    found = {path.name for kind in ("model", "components", "basis") for path in (tmp_path / "g").glob(f"{kind}-*")}
    assert found == {state.model, state.components, state.basis}


# --- several processes ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_readers_see_whole_versions_while_another_process_writes(tmp_path):
    photos(tmp_path / "photos", 60)
    running = Work(tmp_path)
    sizes = []
    while running.process.is_alive():
        sizes.append(check_rows(tmp_path / "g"))
    running.finish()
    assert sizes == sorted(sizes)
    assert check_rows(tmp_path / "g") == 60


def test_the_second_writer_is_told_who_writes(tmp_path):
    photos(tmp_path / "photos", 3)
    Work(tmp_path).finish()
    photos(tmp_path / "photos", 200, start=3)
    running = Work(tmp_path)
    while not (tmp_path / "g" / "lock.json").exists():
        assert running.process.is_alive()
    with pytest.raises(LockedError, match=rf"is being written by process {running.process.pid} on \S+ since 20"):
        Gallery.open(tmp_path / "g").update()
    running.finish()
    assert check_rows(tmp_path / "g") == 203


def test_an_opened_version_stays_readable_while_another_process_compacts_and_cleans_up(tmp_path):
    """Old versions stay for an hour, as they do for users: only the rest happens soon."""
    photos(tmp_path / "photos", 40)
    Work(tmp_path).finish()
    opened = Gallery.open(tmp_path / "g")
    before = opened.search("000.png and not 001.png", top=50)
    searched = Gallery.open(tmp_path / "g")  # nothing of it is in memory yet
    rng = np.random.default_rng(0)
    for step in range(3):
        disturb(tmp_path / "photos", rng, step)
        Work(tmp_path, steps=False).finish()
    with small_steps():
        from andornot.gallery import writing

        writing.KEEP = 60 * writing.timedelta(minutes=1)
        Gallery.open(tmp_path / "g").update()
    assert searched.search("000.png and not 001.png", top=50) == before
    assert opened.search("000.png and not 001.png", top=50) == before
    searched.refresh()
    assert len(searched) == len([*(tmp_path / "photos").iterdir()])


# --- disks ----------------------------------------------------------------------------------------------------------


@contextmanager
def mounted(*options: str, at: Path) -> Iterator[None]:
    """Mount something at a folder; skip the test where that is not allowed."""
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(at)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


def test_a_full_disk_loses_nothing_and_is_one_line(tmp_path):
    photos(tmp_path / "photos", 12)
    with mounted("-t", "tmpfs", "-o", "size=1m", "tmpfs", at=tmp_path / "g"):
        Work(tmp_path).finish()
        before = Gallery.open(tmp_path / "g").search("000.png", top=50)
        photos(tmp_path / "photos", 200, start=12)
        running = Work(tmp_path)
        running.process.join(120)
        assert running.process.exitcode == 2
        assert running.output.strip().splitlines()[-1].startswith("andornot: ")
        assert "No space left on device" in running.output
        assert "Traceback" not in running.output
        assert 12 <= check_rows(tmp_path / "g") < 212
        found = {hit.path: hit.distance for hit in Gallery.open(tmp_path / "g").search("000.png", top=500)}
        assert {hit.path for hit in before} <= found.keys()
        subprocess.run(["mount", "-o", "remount,size=60m", str(tmp_path / "g")], check=True)
        Work(tmp_path).finish()
        assert check_rows(tmp_path / "g") == 212
        same_as_fresh(tmp_path)


def test_a_read_only_gallery_can_be_searched_and_not_written(tmp_path):
    photos(tmp_path / "photos", 20)
    Work(tmp_path).finish()
    (tmp_path / "g").rename(tmp_path / "writable")
    with mounted("--bind", str(tmp_path / "writable"), at=tmp_path / "g"):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(tmp_path / "g")], check=True)
        gallery = Gallery.open(tmp_path / "g")
        assert len(gallery.search("000.png and not 001.png", top=30)) == 18
        assert len(gallery.paths) == 20
        for write in (gallery.update, gallery.recalibrate, lambda: gallery.define("x", "000.png")):
            with pytest.raises(OSError, match="Read-only file system") as error:
                write()
            assert error.value.errno == errno.EROFS


def test_a_search_writes_nothing(tmp_path):
    photos(tmp_path / "photos", 20)
    Work(tmp_path).finish()

    def files() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in (tmp_path / "g").rglob("*")}

    before = files()
    gallery = Gallery.open(tmp_path / "g")
    gallery.search("000.png and not 001.png or 003.png", top=30)
    gallery.search("dog", top=30)
    Browser(gallery.planner)
    assert files() == before
