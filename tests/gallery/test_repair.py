"""Repair, damaged models, and folders that are no galleries: what an error suggests works, and nothing is removed or
overwritten that the gallery did not write."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from stored import ENOUGH, photos, save_image, seeing_recipe, small_model, small_steps, table_of

from andornot.commands.main import main
from andornot.gallery import Gallery, GalleryError
from andornot.gallery.errors import DamagedError
from andornot.model import Model


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    """A gallery that calibrated its model for itself."""
    made = Gallery.create(tmp_path / "g", recipe=seeing_recipe())
    made.add(photos(tmp_path / "photos", 12))
    return made


@pytest.fixture
def with_given(tmp_path) -> Gallery:
    """A gallery with a model that was given, which cannot be made again."""
    made = Gallery.create(tmp_path / "h", small_model(seed=7))
    made.add(photos(tmp_path / "photos", 12))
    return made


def model_of(gallery: Gallery) -> Path:
    return gallery.folder / table_of(gallery.folder).state.model


def flip(file: Path, place: int = -9) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0x40
    file.write_bytes(content)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- the model ------------------------------------------------------------------------------------------------------


DAMAGES = {
    "a flipped bit": lambda model: flip(model / "model.safetensors"),
    "cut off": lambda model: (model / "model.safetensors").write_bytes(b"x" * 50),
    "no weights": lambda model: (model / "model.safetensors").unlink(),
    "another model": lambda model: small_model(seed=5).save(model),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_calibrated_model_is_made_again_from_the_stored_activations(damage, gallery, tmp_path):
    before = gallery.search("000.png", top=20)
    DAMAGES[damage](model_of(gallery))
    for use in (lambda g: g.search("000.png"), lambda g: g.update(), lambda g: g.model):
        with pytest.raises(GalleryError, match=r"model-\w+.*andornot index --repair makes it again"):
            use(Gallery.open(gallery.folder))
    assert str(Gallery.repair(gallery.folder)) == "the model was damaged and is calibrated again"
    again = Gallery.open(gallery.folder)
    assert again.search("000.png", top=20) == before
    photos(tmp_path / "photos", 2, start=30)
    assert again.update().added == 2
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"


@pytest.mark.parametrize("damage", DAMAGES)
def test_another_copy_of_the_model_takes_its_place(damage, with_given, tmp_path, capsys):
    shutil.copytree(model_of(with_given), tmp_path / "copy")
    before = with_given.search("000.png", top=20)
    DAMAGES[damage](model_of(with_given))
    command = ["index", "--repair", "--gallery", str(with_given.folder)]
    assert main(command) == 2
    assert "andornot index --repair --model COPY takes another copy" in capsys.readouterr().err
    small_model(seed=8).save(tmp_path / "wrong")
    assert main([*command, "--model", str(tmp_path / "wrong")]) == 2
    assert "was made with" in capsys.readouterr().err
    assert main([*command, "--model", str(tmp_path / "copy")]) == 0
    assert "the model was damaged and is restored from the copy" in capsys.readouterr().out
    assert Gallery.open(with_given.folder).search("000.png", top=20) == before
    assert (tmp_path / "copy").exists()


def test_the_backbone_of_a_calibrated_model_is_that_of_the_gallery_whatever_its_description_says(tmp_path):
    made = Gallery.create(tmp_path / "g", recipe=seeing_recipe(backbone="conv5", backbone_options={"width": 16}))
    made.add(photos(tmp_path / "photos", 12))
    before = made.search("000.png", top=20)
    description = model_of(made) / "model.json"
    content = json.loads(description.read_text())
    content["recipe"]["seed"] = 9
    description.write_text(json.dumps(content))
    flip(model_of(made) / "model.safetensors")
    assert str(Gallery.repair(made.folder)) == "the model was damaged and is calibrated again"
    assert Gallery.open(made.folder).search("000.png", top=20) == before


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, '{"format": 1e999}', '{"format": 1, "recipe": 3}']
)
def test_any_description_of_a_model_is_one_line(text, with_given):
    (model_of(with_given) / "model.json").write_text(text)
    with pytest.raises(GalleryError, match="--repair") as error:
        Gallery.open(with_given.folder).search("000.png")
    assert "\n" not in str(error.value)
    with pytest.raises(GalleryError, match="--model COPY takes another copy"):
        Gallery.repair(with_given.folder)


# --- rows -----------------------------------------------------------------------------------------------------------


def damage_activations(gallery: Gallery, *names: str) -> None:
    """Flip a bit of the stored activations of some images, wherever they are."""
    table = table_of(gallery.folder)
    for name in names:
        (record,) = table.with_name(name)
        stored = table.activations(np.array([record.id])).tobytes()
        for file in (gallery.folder / "images.lance" / "data").iterdir():
            content = file.read_bytes()
            if (place := content.find(stored)) >= 0:
                flip(file, place + 3)


def test_exactly_the_damaged_rows_are_encoded_again(gallery, tmp_path):
    before, ids = gallery.search("000.png", top=20), gallery.ids
    damage_activations(gallery, "004.png", "009.png")
    with pytest.raises(
        DamagedError, match=r"the activations of .*00[49]\.png have a wrong checksum; andornot index --"
    ):
        Gallery.open(gallery.folder).search("000.png")
    (tmp_path / "photos" / "009.png").unlink()
    repaired = Gallery.repair(gallery.folder)
    assert str(repaired) == (
        "2 images were damaged: 1 are encoded again, 1 dropped because their files are gone or broken"
    )
    again = Gallery.open(gallery.folder)
    assert again.ids == [identity for identity in ids if identity != 10]
    after = {hit.path: hit.distance for hit in again.search("000.png", top=20)}
    for hit in before:
        if not hit.path.endswith("009.png"):
            assert after[hit.path] == pytest.approx(hit.distance, abs=0.05)
    assert str(Gallery.repair(gallery.folder)) == "nothing was damaged"


def test_rows_and_the_model_are_repaired_at_once(gallery):
    damage_activations(gallery, "004.png")
    flip(model_of(gallery) / "model.safetensors")
    told = str(Gallery.repair(gallery.folder))
    assert told.startswith("the model was damaged and is calibrated again; 1 images were damaged: 1 are encoded again")
    assert len(Gallery.open(gallery.folder).search("000.png", top=20)) == 11


@pytest.mark.parametrize("damage", ["cut off", "removed"])
def test_rows_whose_file_cannot_be_read_are_added_again(damage, gallery, tmp_path):
    photos(tmp_path / "photos", 6, start=12)
    gallery.update()
    file = max((gallery.folder / "images.lance" / "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    if damage == "removed":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DamagedError, match="--repair"):
        Gallery.open(gallery.folder).search("000.png")
    assert "6 images could not be read" in str(Gallery.repair(gallery.folder))
    again = Gallery.open(gallery.folder)
    assert len(again) == 12
    summary = again.update()
    assert (summary.added, summary.unchanged) == (6, 12)
    assert len(again.search("000.png", top=20)) == 17


def test_an_older_version_is_used_when_the_manifest_is_damaged(gallery, tmp_path, capsys):
    save_image(tmp_path / "photos" / "new.png", 500)
    gallery.add(tmp_path / "photos")
    before = gallery.search("000.png", top=20)
    flip(min((gallery.folder / "images.lance" / "_versions").glob("*.manifest")), 40)
    assert main(["search", "000.png", "--gallery", str(gallery.folder)]) == 2
    assert "the manifest of version" in capsys.readouterr().err
    assert "is as it was before its last change" in str(Gallery.repair(gallery.folder))
    again = Gallery.open(gallery.folder)
    again.add(tmp_path / "photos")
    assert again.search("000.png", top=20) == before


def test_without_any_manifest_one_line_says_to_start_over(gallery, capsys):
    for manifest in (gallery.folder / "images.lance" / "_versions").glob("*.manifest"):
        manifest.unlink()
    for command in (["search", "000.png"], ["index", "--repair"], ["index"]):
        assert main([*command, "--gallery", str(gallery.folder)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "index the images again into a new folder" in line


def test_damaged_projections_are_fitted_again_and_without_the_basis_of_regions_all_is_encoded_again(tmp_path):
    with small_steps():
        made = Gallery.create(tmp_path / "g", recipe=seeing_recipe())
        made.add(photos(tmp_path / "photos", 2 * ENOUGH))
        before = made.search("000.png and 001.png", top=30)
        state = table_of(made.folder).state
        flip(made.folder / state.components)
        with pytest.raises(DamagedError, match=f"{state.components} is missing or damaged"):
            Gallery.open(made.folder).search("000.png and 001.png")
        assert "the projection of images was damaged and is fitted again" in str(Gallery.repair(made.folder))
        assert Gallery.open(made.folder).search("000.png and 001.png", top=30) == before
        flip(made.folder / state.basis)
        with pytest.raises(DamagedError, match=f"{state.basis} is missing or damaged"):
            Gallery.open(made.folder).search("000.png and 001.png")
        told = str(Gallery.repair(made.folder))
        assert f"all images are encoded again; {2 * ENOUGH} images were damaged: {2 * ENOUGH} are encoded" in told
        assert len(Gallery.open(made.folder).search("000.png and 001.png", top=30)) == 2 * ENOUGH - 2


# --- what belongs to others -----------------------------------------------------------------------------------------


@pytest.fixture
def guests(gallery) -> Path:
    """Put things of somebody else into the gallery's folder, with names like those of its own."""
    guests = gallery.folder.parent / "guests"
    photos(guests / "model-trains", 3, start=100)
    small_model(seed=3).save(guests / "model-mine")
    save_image(guests / "cache" / "my image.png", 5)
    names = (
        "basis-mine.safetensors",
        "components-1.safetensors",
        "definitions-mine.json",
        "gallery.sqlite.bak",
        "model-notes",
        "notes.lance",
    )
    for name in names:
        (guests / name).write_text("mine")
    shutil.copytree(guests, gallery.folder, dirs_exist_ok=True)
    return guests


def test_whatever_a_gallery_does_the_things_of_others_stay(gallery, guests, tmp_path):
    with small_steps():
        own = model_of(gallery)
        for number in range(4):
            (tmp_path / "photos" / f"{number:03}.png").unlink()
        gallery.update()
        gallery.recalibrate()
        gallery.update()
        assert not own.exists()
        photos(tmp_path / "photos", 30, start=20)
        gallery.update()
        gallery.recalibrate()
        flip(model_of(gallery) / "model.safetensors")
        damage_activations(gallery, "021.png")
        Gallery.repair(gallery.folder)
        Gallery.open(gallery.folder).update()
    assert files_in(guests).items() <= files_in(gallery.folder).items()
    assert len(Gallery.open(gallery.folder).search("020.png", top=50)) == 37


def test_images_in_the_folder_of_the_gallery_are_refused_and_not_lost(gallery, capsys):
    inside = photos(gallery.folder / "model-trains", 4, start=10)
    before = files_in(inside)
    assert main(["index", str(inside), "--gallery", str(gallery.folder)]) == 2
    assert f"{inside} is in the folder of the gallery {gallery.folder}" in capsys.readouterr().err
    assert main(["index", "--gallery", str(gallery.folder)]) == 0
    assert files_in(inside) == before


@pytest.mark.parametrize("name", ["cache", "identity cards", "lockers", "basis-of-mine", "notes.txt"])
def test_no_gallery_is_made_among_things_of_others(name, tmp_path):
    photos(tmp_path / "w" / name, 2)
    with pytest.raises(GalleryError, match=f"is not empty, and no gallery \\({name} is in it\\)"):
        Gallery.create(tmp_path / "w", small_model())


# --- folders that are no galleries ----------------------------------------------------------------------------------


def lines_of_all_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Run every command that opens a gallery, and return what they say."""
    photos(folder.parent / "some", 2)
    said = set()
    commands = (["search", "000.png"], ["index"], ["index", str(folder.parent / "some")], ["index", "--repair"])
    for command in (*commands, ["define", "x", "000.png"]):
        before = files_in(folder)
        assert main([*command, "--gallery", str(folder)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert files_in(folder) == before
        said.add(line)
    return said


def test_a_gallery_of_an_earlier_version_is_one_line(tmp_path, capsys):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "gallery.sqlite").write_bytes(b"SQLite format 3\0")
    (line,) = lines_of_all_commands(tmp_path / "g", capsys)
    assert line == (
        f"andornot: {tmp_path / 'g'} was made by an earlier version of andornot: "
        "index the images again, into a new folder"
    )


def test_a_lance_dataset_of_another_program_is_one_line(tmp_path, capsys):
    import lance
    import pyarrow as pa

    (tmp_path / "g").mkdir()
    lance.write_dataset(pa.table({"id": [1, 2]}), str(tmp_path / "g" / "images.lance"))
    (line,) = lines_of_all_commands(tmp_path / "g", capsys)
    assert line.endswith("images.lance is a Lance dataset of another program, not a gallery")


def test_a_folder_of_other_things_is_one_line(tmp_path, capsys):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "notes.txt").write_text("mine")
    for line in lines_of_all_commands(tmp_path / "g", capsys):
        assert "no gallery" in line


@pytest.mark.parametrize("name", ["missing", "file"])
def test_no_folder_at_all_is_one_line(name, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["search", "000.png", "--gallery", str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "there is no gallery in" in line


def test_without_lance_one_line_names_the_package(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lance", None)
    assert main(["search", "000.png", "--gallery", "s3://bucket/g"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install pylance" in line
    assert not (tmp_path / "g").exists()


def test_a_model_that_the_gallery_writes_can_be_loaded_by_itself(gallery):
    assert Model.load(model_of(gallery)).id == gallery.model.id
