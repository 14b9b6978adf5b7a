"""A damaged model: what the error says works, and no model is taken that is not the right one."""

import json
import shutil
from pathlib import Path

import pytest
from galleries import photos, tiny_model, tiny_recipe

from andornot.commands.main import main
from andornot.gallery import Gallery, GalleryError


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    """One with a model of its own."""
    made = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    made.add(photos(tmp_path / "photos", 12))
    return made


@pytest.fixture
def with_given(tmp_path) -> Gallery:
    """One with a model that was given, and cannot be guessed."""
    made = Gallery.create(tmp_path / "h", tiny_model(seed=7))
    made.add(photos(tmp_path / "photos", 12))
    return made


def model_of(gallery: Gallery) -> Path:
    return gallery.folder / gallery._snapshot.state.model


DAMAGES = {
    "a flipped byte": lambda model: flip(model / "model.safetensors"),
    "cut off": lambda model: (model / "model.safetensors").write_bytes(b"x" * 50),
    "no weights": lambda model: (model / "model.safetensors").unlink(),
    "another model": lambda model: tiny_model(seed=5).save(model),
}


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-9] ^= 0x40
    file.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_calibrated_model_is_made_again_from_the_stored_features(damage, gallery, tmp_path):
    before = gallery.search("000.png", top=20)
    DAMAGES[damage](model_of(gallery))
    for use in (lambda g: g.search("000.png"), lambda g: g.update(), lambda g: g.model):
        with pytest.raises(GalleryError, match=r"model-0002.*andornot index --repair makes it again"):
            use(Gallery.open(gallery.folder))
    if damage == "another model":
        with pytest.raises(GalleryError, match="cannot be made again"):
            Gallery.repair(gallery.folder)
        return
    repaired = Gallery.repair(gallery.folder)
    assert "was damaged: it is calibrated anew on the stored features of 12 pictures" in str(repaired)
    again = Gallery.open(gallery.folder)
    assert [hit.path for hit in again.search("000.png", top=20)] == [hit.path for hit in before]
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
    assert "andornot index --repair --model COPY takes another copy of it" in capsys.readouterr().err
    if damage == "a flipped byte":
        shutil.copytree(with_given.folder, tmp_path / "recalibrated")
        assert main([*command[:-1], str(tmp_path / "recalibrated"), "--recalibrate"]) == 0
        assert "calibrated anew on the stored features" in capsys.readouterr().out
        assert len(Gallery.open(tmp_path / "recalibrated").search("000.png", top=20)) == 11
    tiny_model(seed=8).save(tmp_path / "wrong")
    assert main([*command, "--model", str(tmp_path / "wrong")]) == 2
    assert "is not the one of" in capsys.readouterr().err
    assert main([*command, "--model", str(tmp_path / "copy")]) == 0
    assert "the given model, which is the same, replaces it" in capsys.readouterr().out
    assert Gallery.open(with_given.folder).search("000.png", top=20) == before
    assert (tmp_path / "copy").exists()


def test_a_copy_in_the_folder_of_the_gallery_is_found(with_given):
    shutil.copytree(model_of(with_given), with_given.folder / "model-0005")
    DAMAGES["cut off"](model_of(with_given))
    assert "model-0005, which is the same, replaces it" in str(Gallery.repair(with_given.folder))
    assert len(Gallery.open(with_given.folder).search("000.png", top=20)) == 11
    assert (with_given.folder / "model-0005").exists()


def test_without_a_picture_to_tell_by_no_model_is_made_again(gallery, tmp_path):
    shutil.rmtree(tmp_path / "photos")
    DAMAGES["cut off"](model_of(gallery))
    with pytest.raises(GalleryError, match="cannot be made again from what is there"):
        Gallery.repair(gallery.folder)


def test_a_backbone_that_makes_other_features_is_not_taken(gallery):
    description = model_of(gallery) / "model.json"
    content = json.loads(description.read_text())
    content["recipe"]["seed"] = 9
    description.write_text(json.dumps(content))
    flip(model_of(gallery) / "model.safetensors")
    with pytest.raises(GalleryError, match="cannot be made again from what is there"):
        Gallery.repair(gallery.folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, '{"format": 1e999}', '{"format": 1, "recipe": 3}']
)
def test_a_description_that_is_anything_is_one_line(text, with_given):
    (model_of(with_given) / "model.json").write_text(text)
    with pytest.raises(GalleryError, match="--repair"):
        Gallery.open(with_given.folder).search("000.png")
    with pytest.raises(GalleryError, match="another copy of it"):
        Gallery.repair(with_given.folder)


def test_features_and_model_may_be_damaged_at_once(gallery):
    (gallery.folder / "features-0001.bin").write_bytes(b"\1" * 200)
    flip(model_of(gallery) / "model.safetensors")
    with pytest.raises(GalleryError, match="cannot be made again"):  # nothing tells whether it would be the right one
        Gallery.repair(gallery.folder)


def test_with_some_features_left_both_are_mended(gallery):
    file = gallery.folder / "features-0001.bin"
    content = bytearray(file.read_bytes())
    content[:128] = b"\1" * 128
    file.write_bytes(content)
    flip(model_of(gallery) / "model.safetensors")
    repaired = Gallery.repair(gallery.folder)
    assert (repaired.damaged_features, repaired.summary.changed) == (4, 4)
    assert len(Gallery.open(gallery.folder).search("000.png", top=20)) == 11
