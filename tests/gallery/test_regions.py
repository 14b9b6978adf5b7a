"""Regions and classes of pictures: kept by the same pass, in full or in a basis, whatever happens to the gallery."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import photos, save_picture, seeing_recipe, tiny_recipe, touch_later

from andornot.commands.main import main
from andornot.data.resizing import square
from andornot.gallery import Gallery, Summary, encoding, indexing, writer
from andornot.gallery.basis import Basis
from andornot.gallery.beside import Beside
from andornot.gallery.likeness.products import where_best
from andornot.gallery.writer import open_writer
from andornot.model import Model
from andornot.ssl.backbones import windows_of
from andornot.words import KeptClasses, words_of

ENOUGH = 16


@pytest.fixture(autouse=True)
def few_are_enough(monkeypatch) -> None:
    monkeypatch.setattr(writer, "ENOUGH_FOR_A_BASIS", ENOUGH)
    monkeypatch.setattr(indexing, "COMMIT_PICTURES", 6)
    monkeypatch.setattr(encoding, "BATCH", 6)


def new_gallery(folder: Path, count: int) -> Gallery:
    gallery = Gallery.create(folder / "g", recipe=seeing_recipe())
    gallery.add(photos(folder / "photos", count))
    return gallery


@pytest.fixture(params=[10, 30], ids=["in full", "in a basis"])
def gallery(request, tmp_path) -> Gallery:
    return new_gallery(tmp_path, request.param)


def old_gallery(folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> Gallery:
    """As an earlier version made it: nothing is beside the features."""
    with monkeypatch.context() as patched:
        patched.setattr(encoding.Sight, "see", _only_features(encoding.Sight.see))
        gallery = new_gallery(folder, count)
    assert {path.name for path in gallery.folder.glob("*.bin")} == {"features-0001.bin"}
    return gallery


def _only_features(see):
    return lambda self, *arguments: see(self, *arguments)._replace(regions=None, classes=None)


def looked_at(model: Model, paths: list[str]) -> tuple[torch.Tensor, KeptClasses]:
    """An obvious oracle: the activations of the windows of each picture, and its classes."""
    (maps,) = model.look(paths, batch_size=len(paths), progress=False)
    windows = [maps[:, :, w.top : w.bottom, w.left : w.right] for w in windows_of(7, 7)]
    return torch.stack([model.backbone.pool(one) for one in windows], 1), KeptClasses.of(words_of(model).evidence(maps))


def check(gallery: Gallery, lacking: tuple[str, ...] = ()) -> None:
    """Every picture has its own regions and classes, but for some by name, which have none."""
    paths, rows = gallery.paths, gallery._snapshot.rows
    regions, classes = gallery._regions, gallery._kept_classes
    expected = np.array([Path(path).name not in lacking for path in paths])
    assert regions.has(rows).tolist() == classes.has(rows).tolist() == expected.tolist()
    windows, kept = looked_at(gallery.model, paths)
    made = regions.basis.codes(windows).int()
    made[torch.from_numpy(~expected)] = 0
    assert (regions.codes(rows).int() - made).abs().max() <= 3
    there = torch.from_numpy(expected)
    assert (classes.read(rows).evidence()[there] - kept.evidence()[there]).abs().max() < 0.01
    assert (classes.read(rows).weights[~there] == 255).all()
    assert gallery.without_regions == (~expected).sum()


# --- indexing -------------------------------------------------------------------------------------------------------


def test_every_picture_has_its_regions_and_classes(gallery):
    check(gallery)
    assert bool(gallery._snapshot.state.basis) == (len(gallery) > ENOUGH)
    assert gallery._regions.count == 9
    assert gallery._regions.codes(np.array([3, 1, 2])).shape == (3, 9, 64)


def test_what_one_thread_looks_at_is_missing_to_no_other(gallery, monkeypatch):
    regions, rows = gallery._regions, gallery._snapshot.rows
    looked = Beside.conditions
    seen = []

    def look(*arguments):
        if not seen:
            seen.append([])
            seen[0] = regions.has(rows)  # another thread asks in the very middle
        return looked(*arguments)

    monkeypatch.setattr(Beside, "conditions", look)
    assert regions.has(rows).all()
    assert seen[0].all()


def test_pictures_are_looked_at_once(tmp_path, monkeypatch):
    seen = []
    original = Model.look
    monkeypatch.setattr(Model, "look", lambda *args, **how: (seen.append(len(args[1])), original(*args, **how))[1])
    new_gallery(tmp_path, 30)
    assert sum(seen) == 30


def test_regions_follow_what_becomes_of_the_pictures(gallery, tmp_path):
    folder = tmp_path / "photos"
    save_picture(folder / "001.png", 900)
    touch_later(folder / "001.png")
    (folder / "002.png").rename(folder / "moved.png")
    (folder / "003.png").unlink()
    (folder / "copy.png").write_bytes((folder / "004.png").read_bytes())
    save_picture(folder / "same 1.png", 901)
    (folder / "same 2.png").write_bytes((folder / "same 1.png").read_bytes())
    assert gallery.update().changed == 1
    check(gallery)
    gallery.remove("005.png")
    check(gallery)


def test_the_basis_comes_with_the_pictures_and_stays(tmp_path):
    gallery = new_gallery(tmp_path, ENOUGH - 1)
    assert (gallery.folder / "regions-full-0001.bin").stat().st_size == (ENOUGH - 1) * 9 * 16 * 2
    check(gallery)
    gallery.add(photos(tmp_path / "photos", 4, start=100))
    gallery.add(photos(tmp_path / "photos", 4, start=200))
    check(gallery)
    basis = gallery._regions.basis.id
    assert not list(gallery.folder.glob("regions-full*"))
    assert (gallery.folder / "regions-0001-0001.bin").stat().st_size == (ENOUGH + 7) * 9 * 64
    gallery.recalibrate()
    gallery.add(photos(tmp_path / "photos", 9, start=300))
    check(gallery)
    assert gallery._regions.basis.id == basis


def test_queries_find_the_region_that_they_were_cut_from(gallery):
    regions, rows = gallery._regions, gallery._snapshot.rows
    windows, _ = looked_at(gallery.model, gallery.paths)
    queries = regions.basis.project(regions.basis.represent(windows[4]).degrees)
    assert torch.allclose(queries, regions.basis.project(regions.basis.degrees(windows[4])), atol=1e-5)
    assert where_best(regions.codes(rows[4:5]), queries).flatten().tolist() == list(range(9))


def test_rows_that_nobody_uses_are_removed_with_what_is_beside_them(gallery, monkeypatch):
    monkeypatch.setattr(writer, "_SPARE_ROWS", 4)
    monkeypatch.setattr(writer, "_SPARE_FULL_ROWS", 4)
    old = Gallery.open(gallery.folder)
    for seed in range(3):
        for path in map(Path, gallery.paths):
            save_picture(path, 1000 * (seed + 1) + int(path.stem))
            touch_later(path)
        gallery.update()
    gallery.update()
    assert gallery._snapshot.state.first_file > 1
    assert gallery._snapshot.state.rows < 3 * len(gallery)
    check(gallery)
    assert old._regions.has(old._snapshot.rows).all()
    numbers = {path.name[-8:-4] for path in gallery.folder.glob("*.bin")}
    assert len(numbers) == 1


def test_a_backbone_without_maps_and_classes_keeps_nothing(tmp_path):
    gallery = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    gallery.add(photos(tmp_path / "photos", 20))
    assert (gallery._regions, gallery._kept_classes, gallery.without_regions) == (None, None, 0)
    assert {path.name for path in gallery.folder.glob("*.bin")} == {"features-0001.bin"}


def test_a_trained_head_is_the_basis_s_own(tmp_path):
    from andornot.model import new_network

    recipe = seeing_recipe(regime="frozen", num_features=24, predictor_hidden=8)
    model = Model.from_network(new_network(recipe, channels=3), recipe)
    gallery = Gallery.create(tmp_path / "g", model)
    gallery.add(photos(tmp_path / "photos", 30))
    check(gallery)
    assert gallery._regions.basis.components.axes.shape == (24, 64)


# --- where ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit", ["crop", "squash"])
@pytest.mark.parametrize("size", [(70, 70), (140, 70), (70, 210)])
def test_boxes_are_where_the_backbone_looked(fit, size, tmp_path):
    """A picture that is white in one region only, as the model sees it, is bright just there in the original."""
    from PIL import Image

    gallery = Gallery.create(tmp_path / "g", recipe=seeing_recipe(fit=fit))
    gallery.add(photos(tmp_path / "photos", 4))
    for number, window in enumerate(windows_of(7, 7)):
        box = gallery._regions.box_in(number, *size)
        left, top, right, bottom = (round(side * length) for side, length in zip(box, (*size, *size), strict=True))
        picture = Image.new("L", size)
        picture.paste(255, (left, top, right, bottom))
        seen = np.asarray(square(picture, 70, fit)).astype(float) / 255
        inside = seen[10 * window.top : 10 * window.bottom, 10 * window.left : 10 * window.right]
        assert inside.mean() > 0.93
        assert seen.sum() - inside.sum() < 60


# --- galleries of earlier versions ----------------------------------------------------------------------------------


def distances(gallery: Gallery) -> dict[int, float]:
    """By degrees, which no other picture has a part in."""
    return {hit.id: hit.distance for hit in gallery.search("000.png", top=50, score="degrees")}


@pytest.mark.parametrize("count", [10, 30])
def test_galleries_made_before_gain_regions_when_asked(count, tmp_path, monkeypatch, capsys):
    gallery = old_gallery(tmp_path, count, monkeypatch)
    before, ids = distances(gallery), gallery.ids
    assert (gallery._regions, gallery._kept_classes, gallery.without_regions) == (None, None, count)
    photos(tmp_path / "photos", 2, start=500)
    assert main(["index", "--gallery", str(gallery.folder)]) == 0
    assert f"{count} have no regions or words yet: andornot index --gallery {gallery.folder} --regions adds them" in (
        capsys.readouterr().out
    )
    gallery.refresh()
    check(gallery, tuple(f"{number:03}.png" for number in range(count)))
    assert main(["index", "--gallery", str(gallery.folder), "--regions"]) == 0
    told = capsys.readouterr().out
    assert f"0 added, 0 changed, 0 moved, 0 removed, {count + 2} unchanged" in told
    assert "regions" not in told
    gallery.refresh()
    check(gallery)
    assert gallery.ids[:count] == ids
    assert {one: distance for one, distance in distances(gallery).items() if one <= count} == before
    assert gallery.update(regions=True) == Summary(unchanged=count + 2)


def test_a_picture_that_cannot_be_looked_at_once_more_stays(tmp_path, monkeypatch):
    gallery = old_gallery(tmp_path, 10, monkeypatch)
    path = tmp_path / "photos" / "003.png"
    status = path.stat()
    path.write_bytes(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    gallery.update(regions=True)
    assert (len(gallery), gallery.without_regions) == (10, 1)


# --- damage ---------------------------------------------------------------------------------------------------------


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


def files_beside(gallery: Gallery) -> list[Path]:
    return [gallery.folder / name for name in gallery._snapshot.state.beside]


def test_a_damaged_row_is_not_used_and_made_anew_by_the_repair(gallery):
    count = len(gallery)
    for file in files_beside(gallery):
        size = file.stat().st_size // count
        flip(file, 4 * size + 1)
    again = Gallery.open(gallery.folder)
    rows = again._snapshot.rows
    assert np.flatnonzero(~again._regions.has(rows)).tolist() == [4]
    assert not again._regions.codes(rows)[4].any()
    assert str(Gallery.repair(gallery.folder)) == (
        "the regions or classes of 1 pictures were damaged: 1 are made anew, 0 have none now"
    )
    again.refresh()
    check(again)
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"


def test_a_place_is_told_by_the_name_that_was_defined(gallery):
    gallery.define("sunset", "like(000.png, 001.png)")
    hits = gallery.search("003.png and sunset")
    assert {place.term for hit in hits for place in hit.where} == {"003.png", "sunset"}


def test_without_any_region_left_conditions_compare_whole_pictures(gallery):
    for file in gallery.folder.glob("regions-*.bin"):
        file.write_bytes(b"")
    gallery = Gallery.open(gallery.folder)
    hits = gallery.search("000.png and 001.png")
    assert len(hits) == min(10, len(gallery) - 2)
    assert not any(hit.where for hit in hits)


def test_what_is_lost_is_made_anew_where_the_picture_is_there(gallery, tmp_path):
    for file in files_beside(gallery):
        file.unlink()
    (tmp_path / "photos" / "002.png").unlink()
    lost = Gallery.open(gallery.folder)
    assert not lost._regions.has(lost._snapshot.rows).any()
    count = len(gallery)
    assert str(Gallery.repair(gallery.folder)) == (
        f"the regions or classes of {count} pictures were damaged: {count - 1} are made anew, 1 have none now"
    )
    again = Gallery.open(gallery.folder)
    assert len(again) == count
    assert again._regions.has(again._snapshot.rows).sum() == count - 1
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"


def test_one_damaged_copy_of_the_basis_does_no_harm(tmp_path):
    gallery = new_gallery(tmp_path, 30)
    for name in ("basis.safetensors", "copy.safetensors"):
        flip(gallery.folder / "basis-0001" / name, 500)
        again = Gallery.open(gallery.folder)
        check(again)
        photos(tmp_path / "photos", 2, start=len(again) + 100)
        again.update()
        assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"  # and the copy is written anew


def test_a_lost_basis_costs_no_answer_and_is_made_anew(tmp_path):
    gallery = new_gallery(tmp_path, 30)
    before = gallery.search("000.png", top=50)
    shutil.rmtree(gallery.folder / "basis-0001")
    again = Gallery.open(gallery.folder)
    assert again._regions is None
    assert again.search("000.png", top=50) == before
    photos(tmp_path / "photos", 1, start=700)
    with pytest.raises(ValueError, match=r"basis-0001 is damaged: .*--repair"):
        again.update()
    assert "the regions or classes of 30 pictures were damaged: 30 are made anew" in str(Gallery.repair(gallery.folder))
    again.refresh()
    assert again.update().added == 1
    check(again)


def test_a_gallery_whose_state_is_lost_finds_its_regions_again(gallery, tmp_path):
    (gallery.folder / "gallery.sqlite").write_bytes(b"")
    for ending in ("-wal", "-shm"):
        Path(f"{gallery.folder / 'gallery.sqlite'}{ending}").unlink(missing_ok=True)
    Gallery.repair(gallery.folder)
    again = Gallery.open(gallery.folder)
    again.add(tmp_path / "photos")
    again.update(regions=True)
    check(again)


# --- crashes --------------------------------------------------------------------------------------------------------


class KilledError(Exception):
    """As if the process ended here."""


@pytest.mark.parametrize("step", range(1, 12))
def test_killed_while_the_basis_is_made_it_goes_on(step, tmp_path, monkeypatch):
    """At each write of that moment; what was committed has its regions afterwards as before."""
    gallery = new_gallery(tmp_path, ENOUGH)
    photos(tmp_path / "photos", 10, start=100)
    calls = []

    def killed(original):
        def call(*arguments, **more):
            calls.append(original)
            if len(calls) == step:
                raise KilledError
            return original(*arguments, **more)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(Basis, "save", killed(Basis.save))
        patched.setattr(writer.Writer, "claim", killed(writer.Writer.claim))
        patched.setattr(writer.BesideWriter, "put", killed(writer.BesideWriter.put))
        patched.setattr(writer.Writer, "commit", killed(writer.Writer.commit))
        with pytest.raises(KilledError):
            gallery.update()
    check(Gallery.open(gallery.folder))
    with open_writer(gallery.folder):
        pass
    left = {path.name for path in gallery.folder.iterdir()}
    assert ("basis-0001" in left) == bool(Gallery.open(gallery.folder)._snapshot.state.basis)
    again = Gallery.open(gallery.folder)
    again.update()
    check(again)
    assert len(again) == ENOUGH + 10
