"""What is derived from a gallery may be damaged, missing or impossible to write: searches find the same."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from galleries import photos, tiny_model

from andornot.commands.main import main
from andornot.gallery import Gallery, vectors
from andornot.gallery.errors import LockedError
from andornot.gallery.lock import writing


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    made = Gallery.create(tmp_path / "g", tiny_model())
    made.add(photos(tmp_path / "photos", 20))
    made.prepare("containment")
    return made


def as_stored(file: Path, **changes: object) -> str:
    return json.dumps({**json.loads(file.read_text()), **changes})


TEXTS = {
    "deep": lambda _: "[" * 100_000,
    "deep inside": lambda file: as_stored(file)[:-1] + ', "more": ' + "[" * 100_000,
    "an infinite number": lambda file: as_stored(file, rows=float("inf")),
    "no number": lambda file: as_stored(file, rows=float("nan")),
    "a text": lambda file: as_stored(file, rows="20"),
    "less than nothing": lambda file: as_stored(file, rows=-5, checksums=[]),
    "half a row": lambda file: as_stored(file, rows=19.5),
    "more than there are": lambda file: as_stored(file, rows=2000),
    "a huge number": lambda file: as_stored(file, rows=10**30, checksums=[]),
    "checksums by name": lambda file: as_stored(file, checksums={"a": 1}),
    "checksums of another kind": lambda file: as_stored(file, checksums=[[]]),
    "a list": lambda _: "[1, 2]",
    "nothing": lambda _: "",
    "null": lambda _: "null",
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("score", ["degrees", "containment"])
def test_an_index_that_says_anything_is_no_index(text, score, gallery, tmp_path):
    before = gallery.search("000.png", top=30, score=score)
    file = gallery.folder / "derived" / f"{score}.json"
    file.write_text(TEXTS[text](file))
    for _ in range(2):
        found = Gallery.open(gallery.folder).search("000.png", top=30, score=score)
        assert [hit.path for hit in found] == [hit.path for hit in before]
        photos(tmp_path / "photos", 1, start=0)
        gallery.update()


def test_bytes_behind_the_last_row_do_no_harm(gallery):
    with (gallery.folder / "derived" / "degrees.bin").open("ab") as file:
        file.write(b"left by a full disk")
    assert Gallery.open(gallery.folder)._searching.degrees.rows == 20


@pytest.mark.parametrize("begun", [False, True])
def test_a_disk_that_is_full_for_what_is_derived_names_the_file_and_leaves_nothing(
    begun, gallery, tmp_path, monkeypatch
):
    if not begun:
        shutil.rmtree(gallery.folder / "derived")
    photos(tmp_path / "photos", 4, start=30)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(vectors.Stored, "_computed", full)
        with pytest.raises(OSError, match="No space left on device") as error:
            gallery.update()
    assert error.value.filename == str(gallery.folder / "derived" / "degrees.bin")
    assert not list(gallery.folder.rglob("*.partial"))
    assert len(Gallery.open(gallery.folder).search("030.png", top=50)) == 23


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_small_disk_for_what_is_derived(gallery, tmp_path, capsys):
    derived = gallery.folder / "derived"
    shutil.rmtree(derived)
    derived.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(derived)], check=False)
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        photos(tmp_path / "photos", 400, start=30)
        assert main(["index", "--gallery", str(gallery.folder)]) == 2
        (mistake,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("indexing:")]
        # Which of them is too large for it depends on what was there before.
        files = {f"andornot: No space left on device: {derived / name}" for name in ("degrees.bin", "centred.bin")}
        assert mistake in files
        assert list(derived.iterdir()) == []
        assert len(Gallery.open(gallery.folder).search("030.png", top=500)) == 419
    finally:
        subprocess.run(["umount", str(derived)], check=True)
    Gallery.open(gallery.folder).update()
    assert (derived / "degrees.json").exists()


def test_who_asks_for_a_score_hears_that_another_process_writes(gallery, monkeypatch, capsys):
    with writing(gallery.folder), pytest.raises(LockedError, match="is being written by process"):
        gallery.prepare("cross-entropy")
    update = Gallery.update

    def and_then_another_writes(self: Gallery, **how: bool) -> object:
        summary = update(self, **how)
        other.__enter__()
        return summary

    other = writing(gallery.folder)
    monkeypatch.setattr(Gallery, "update", and_then_another_writes)
    try:
        assert main(["index", "--gallery", str(gallery.folder), "--score", "cross-entropy"]) == 2
    finally:
        other.__exit__(None, None, None)
    assert "is being written by" in capsys.readouterr().err
    assert not (gallery.folder / "derived" / "cross-entropy.json").exists()
