"""Links, and galleries among the images: a file is one image under its own name, and thumbnails are none."""

from pathlib import Path

import pytest
from galleries import photos, save_image, tiny_model

from andornot.commands.main import main
from andornot.gallery import Filter, Gallery, GalleryError, Summary


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    return Gallery.create(tmp_path / "g", tiny_model())


@pytest.fixture
def pets(tmp_path) -> Path:
    """`photos/pets` with 4 images, and a link to it that comes first in the alphabet."""
    folder = photos(tmp_path / "photos" / "pets", 4)
    (tmp_path / "photos" / "link").symlink_to(folder)
    return folder


def test_a_linked_folder_does_not_take_over_the_real_one(gallery, pets, tmp_path):
    (pets / "loop").symlink_to(tmp_path / "photos")
    assert gallery.add(tmp_path / "photos") == Summary(added=4)
    assert gallery.paths == [str(pets / f"{number:03}.png") for number in range(4)]
    assert len(gallery.search("000.png | 001.png", filter=Filter(label="pets"))) == 2


def test_images_that_are_stored_under_a_link_get_their_own_name_and_keep_their_ids(gallery, pets, tmp_path):
    link = tmp_path / "photos" / "link"
    assert gallery.add(link) == Summary(added=4)
    ids = gallery.ids
    assert gallery.add(tmp_path / "photos") == Summary(moved=4)
    assert (gallery.ids, {Path(path).parent for path in gallery.paths}) == (ids, {pets})
    for again in (gallery.update, lambda: gallery.add(pets)):
        assert again() == Summary(unchanged=4)
    assert gallery.add(link) == Summary()
    assert gallery.update() == Summary(unchanged=4)


@pytest.mark.usefixtures("pets")
def test_a_link_to_images_elsewhere_is_followed(gallery, tmp_path):
    elsewhere = photos(tmp_path / "elsewhere", 3, start=10)
    (tmp_path / "photos" / "b").symlink_to(elsewhere)
    (tmp_path / "photos" / "a").symlink_to(elsewhere)
    assert gallery.add(tmp_path / "photos") == Summary(added=7)
    assert sum(path.startswith(str(tmp_path / "photos" / "a")) for path in gallery.paths) == 3
    assert gallery.add(elsewhere) == Summary(moved=3)
    assert sum(path.startswith(str(elsewhere)) for path in gallery.paths) == 3


def test_a_linked_file_is_one_image(gallery, pets, tmp_path):
    for name in ("a.png", "z.png"):
        (pets / name).symlink_to(pets / "002.png")
    outside = save_image(tmp_path / "outside.png", 50)
    for name in ("b.png", "c.png"):
        (pets / name).symlink_to(outside)
    assert gallery.add(tmp_path / "photos") == Summary(added=5)
    assert [Path(path).name for path in gallery.paths] == ["000.png", "001.png", "002.png", "003.png", "b.png"]
    assert gallery.update() == Summary(unchanged=5)


@pytest.mark.usefixtures("pets")
def test_a_gallery_among_its_images_does_not_index_its_thumbnails(tmp_path, monkeypatch, capsys):
    tiny_model().save(tmp_path / "m")
    monkeypatch.chdir(tmp_path / "photos")
    for number in range(3):
        assert main(["index", ".", "--gallery", "g", *(["--model", str(tmp_path / "m")] if not number else [])]) == 0
        photos(tmp_path / "photos" / "g" / "cache" / "thumbnails" / "ab", 4, start=10 * (number + 1))
    assert len(Gallery.open("g")) == 4
    photos(tmp_path / "photos" / "other", 2, start=80)
    Gallery.create("galleries/second", tiny_model()).add("other")
    photos(tmp_path / "photos" / "galleries" / "second" / "cache", 2, start=90)
    (tmp_path / "photos" / "thumbnails").symlink_to(tmp_path / "photos" / "galleries" / "second" / "cache")
    assert Gallery.open("g").update() == Summary(added=2, unchanged=4)
    capsys.readouterr()
    for inside in ("g/cache", "thumbnails", "galleries/second", "g/cache/thumbnails/ab/010.png"):
        assert main(["index", inside, "--gallery", "g"]) == 2
        assert "is in the folder of the gallery" in capsys.readouterr().err


@pytest.mark.usefixtures("pets")
def test_images_of_a_folder_that_became_a_gallery_are_dropped(gallery, tmp_path):
    """From a folder, or added by name."""
    seeming = photos(tmp_path / "photos" / "second", 3, start=30)
    gallery.add(tmp_path / "photos")
    gallery.add(photos(tmp_path / "third", 1, start=40) / "040.png")
    for folder in (seeming, tmp_path / "third"):
        (folder / "images.lance").mkdir()
    assert gallery.update() == Summary(removed=4, unchanged=4)
    assert gallery.update() == Summary(unchanged=4)


@pytest.mark.usefixtures("pets")
def test_a_folder_that_became_a_gallery_is_an_error_until_it_is_pruned(gallery, tmp_path):
    gallery.add(tmp_path / "photos")
    (tmp_path / "photos" / "images.lance").mkdir()
    with pytest.raises(GalleryError, match="is in the folder of the gallery"):
        gallery.update()
    assert len(gallery) == 4
    assert gallery.update(prune=True) == Summary(removed=4)
    assert gallery.folders == ()
