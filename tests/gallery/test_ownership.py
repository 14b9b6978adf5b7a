"""A gallery removes what it wrote, and its records name; what else lies in its folder is somebody's own."""

import shutil
from pathlib import Path

import pytest
from galleries import photos, save_picture, tiny_model, tiny_recipe

from andornot.commands.main import main
from andornot.gallery import Gallery, GalleryError, feature_store, writer
from andornot.gallery.writer import open_writer
from andornot.model import Model


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    made = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    made.add(photos(tmp_path / "photos", 12))
    return made


@pytest.fixture
def guests(gallery) -> Path:
    """Things of somebody in the gallery's folder, with names like those of its own."""
    guests = gallery.folder.parent / "guests"
    photos(guests / "model-trains", 3, start=100)
    tiny_model(seed=3).save(guests / "model-mine")
    tiny_model(seed=4).save(guests / "model-0001")
    tiny_model(seed=5).save(guests / "model-0003")
    save_picture(guests / "derived" / "my picture.png", 5)
    (guests / "derived" / "notes.partial").write_text("mine")
    for name in ("features-1a.bin", "features-0007.bin", "features-mine.bin", "gallery.sqlite.bak", "model-notes"):
        (guests / name).write_text("mine")
    shutil.copytree(guests, gallery.folder, dirs_exist_ok=True)
    return guests


def still_there(gallery: Gallery, guests: Path) -> bool:
    return files_in(guests).items() <= files_in(gallery.folder).items()


def test_whatever_a_gallery_does_the_things_of_others_stay(gallery, guests, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_SPARE_ROWS", 3)
    own = gallery._snapshot.state.model
    gallery.recalibrate()
    assert not (gallery.folder / own).exists()
    for number in range(8):
        (tmp_path / "photos" / f"{number:03}.png").unlink()
    gallery.update()
    photos(tmp_path / "photos", 4, start=20)
    gallery.update()
    gallery.prepare("containment")
    gallery.recalibrate()
    Gallery.repair(gallery.folder)
    assert still_there(gallery, guests)
    assert len(Gallery.open(gallery.folder).search("020.png", top=30)) == 7


@pytest.mark.parametrize("lost", [1, 2])
def test_a_repair_that_has_lost_the_state_removes_no_model_of_others(lost, gallery, guests):
    file = gallery.folder / "gallery.sqlite"
    file.write_bytes(b"" if lost == 1 else b"damaged " * 1000)
    Gallery.repair(gallery.folder)
    again = Gallery.open(gallery.folder)
    again.add(gallery.folders)
    Gallery.open(gallery.folder).recalibrate()
    assert still_there(gallery, guests)


def test_pictures_that_were_moved_into_a_gallery_are_not_lost(tmp_path, capsys):
    tiny_model().save(tmp_path / "m")
    gallery = str(tmp_path / "w")
    assert (
        main(["index", str(photos(tmp_path / "first", 3)), "--gallery", gallery, "--model", str(tmp_path / "m")]) == 0
    )
    trains = tmp_path / "w" / "model-trains"
    photos(tmp_path / "photos", 4, start=10).rename(trains)
    before = files_in(trains)
    capsys.readouterr()
    assert main(["index", str(trains), "--gallery", gallery]) == 2
    assert f"{trains} is in the folder of the gallery {gallery}" in capsys.readouterr().err
    assert main(["index", "--gallery", gallery]) == 0
    assert files_in(trains) == before


def test_a_model_in_the_folder_of_the_new_gallery_is_kept(tmp_path, capsys):
    mine = tmp_path / "w" / "model-mine"
    tiny_model().save(mine)
    before = files_in(mine)
    command = ["index", str(photos(tmp_path / "photos", 4)), "--gallery", str(tmp_path / "w"), "--model", str(mine)]
    assert main(command) == 2
    assert "is not empty, and no gallery (model-mine is in it)" in capsys.readouterr().err
    # Of a name that a killed process may have left it is taken for that, and left alone.
    mine = mine.rename(mine.with_name("model-0001"))
    assert main([*command[:-1], str(mine)]) == 0
    Gallery.open(tmp_path / "w").recalibrate()
    assert files_in(mine) == before


@pytest.mark.parametrize("name", ["derived", "identity cards", "lockers", "features-of-mine", "model-0001x"])
def test_no_gallery_is_made_among_things_that_only_sound_like_its_own(name, tmp_path):
    photos(tmp_path / "w" / name, 2)
    with pytest.raises(GalleryError, match=f"is not empty, and no gallery \\({name} is in it\\)"):
        Gallery.create(tmp_path / "w", tiny_model())


def test_what_a_killed_writer_began_is_removed_and_nothing_else(gallery, guests, monkeypatch):
    gallery.recalibrate()
    with monkeypatch.context() as patched:
        patched.setattr(writer.Writer, "commit", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            gallery.recalibrate()
    used = gallery._snapshot.state.model
    models = {path.name for path in gallery.folder.glob("model-*")}
    (begun,) = models - {used, "model-trains", "model-mine", "model-0001", "model-0003", "model-notes"}
    Gallery.open(gallery.folder).update()
    assert {path.name for path in gallery.folder.glob("model-*")} == models - {begun}
    # Once it is removed, the name is free for others.
    shutil.copytree(guests / "model-mine", gallery.folder / begun)
    Gallery.open(gallery.folder).update()
    assert (gallery.folder / begun / "model.json").exists()
    assert still_there(gallery, guests)


def test_a_file_in_the_place_of_the_next_features_is_not_overwritten(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_store, "ROWS_PER_FILE", 12)
    mine = gallery.folder / "features-0002.bin"
    mine.write_text("mine")
    photos(tmp_path / "photos", 3, start=20)
    with pytest.raises(GalleryError, match=f"{mine} is in the way: it is not of this gallery; move it elsewhere"):
        gallery.update()
    assert mine.read_text() == "mine"
    mine.rename(tmp_path / "features-0002.bin")
    gallery.update()
    assert len(gallery) == 15


def test_files_of_features_that_a_killed_writer_began_are_begun_again(gallery, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_store, "ROWS_PER_FILE", 12)
    photos(tmp_path / "photos", 3, start=20)
    with monkeypatch.context() as patched:
        patched.setattr(writer.Writer, "commit", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            gallery.update()
    assert (gallery.folder / "features-0002.bin").exists()
    gallery.update()
    assert len(gallery.search("020.png", top=30)) == 14


def test_a_model_is_never_saved_over_another(gallery):
    with open_writer(gallery.folder) as opened:
        before = Model.load(gallery.folder / opened.state.model).id
        tiny_model(seed=9).save(gallery.folder / "model-0003")
        opened.calibrate(gallery.model)
        assert opened.state.model == "model-0004"
    assert Model.load(gallery.folder / "model-0003").id == tiny_model(seed=9).id != before
