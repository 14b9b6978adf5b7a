"""Looking around in a gallery, and searching it with images that have no files."""

from pathlib import Path

import numpy as np
import pytest
from galleries import photos, save_image, tiny_model

from andornot import FormulaError
from andornot.gallery import Filter, Gallery
from andornot.web.browsing import Browser


@pytest.fixture
def gallery(tmp_path) -> Gallery:
    made = Gallery.create(tmp_path / "g", tiny_model())
    photos(tmp_path / "photos" / "cat", 5)
    photos(tmp_path / "photos" / "dog", 5, start=3)
    made.add(tmp_path / "photos")
    return made


def test_names_may_stand_for_images_without_files(gallery, tmp_path):
    file = save_image(tmp_path / "elsewhere.png", 77)
    encoded = gallery.model.encode(file)
    by_file = gallery.search(f'"{file}" - 2', 5, why=True)
    given = gallery.search(["mine - 2", "000.png"], 5, images={"mine": encoded}, why=True)
    assert [hit.id for hit in given[0]] == [hit.id for hit in by_file]
    assert [hit.id for hit in given[1]] == [hit.id for hit in gallery.search("000.png", 5)]
    assert gallery.resolve("mine | 2", ["mine"]).named["mine"][:2] == ("mine", None)


def test_with_given_images_no_path_is_looked_at_or_told(gallery, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_image(tmp_path / "here.png", 78)
    assert gallery.search("here.png", 1)
    for name in ("here.png", str(tmp_path / "here.png"), gallery.paths[0], "cat/000.png", "~/x.png"):
        with pytest.raises(FormulaError, match="unknown name"):
            gallery.search(f'"{name}"', 1, images={})
    with pytest.raises(FormulaError, match=r"cat/003\.png, .*dog/003\.png; write more of the path, or the id"):
        gallery.search("003.png")
    with pytest.raises(FormulaError, match=r'"003.png" may be 2 images: 4, 6; write the id') as error:
        gallery.search("003.png", images={})
    assert str(tmp_path) not in str(error.value)


def test_a_reopened_gallery_is_another_one_and_writes_nothing(gallery, tmp_path):
    files = sorted(gallery.folder.rglob("*"))
    reader = gallery.reopen()
    before, hits = Browser(reader.planner), reader.search("1", 3)
    reader.search("1 and not 2", 3, score="centered", why=True)
    reader.search("1", 3, score="degrees")
    assert sorted(gallery.folder.rglob("*")) == files
    save_image(tmp_path / "photos" / "cat" / "new.png", 79)
    Gallery.open(gallery.folder).update()
    assert reader.search("1", 3) == hits
    after = Browser(reader.reopen().planner)
    assert (len(before), len(after)) == (10, 11)
    assert before.fingerprint == Browser(gallery.planner).fingerprint != after.fingerprint
    assert after.model is before.model


def test_whatever_changes_changes_the_fingerprint(gallery):
    seen = {Browser(gallery.planner).fingerprint}
    Path(gallery.paths[0]).rename(f"{gallery.paths[0]}.moved.png")
    gallery.update()
    seen.add(Browser(gallery.planner).fingerprint)
    save_image(gallery.folder.parent / "photos" / "cat" / "001.png", 80)
    gallery.update()
    seen.add(Browser(gallery.planner).fingerprint)
    gallery.remove("001.png")
    seen.add(Browser(gallery.planner).fingerprint)
    gallery.define("mine", "3 & 4")
    seen.add(Browser(gallery.planner).fingerprint)
    gallery.define("mine", "3 | 4")
    seen.add(Browser(gallery.planner).fingerprint)
    assert len(seen) == 6


def test_features_over_rows_that_are_not_in_order(gallery):
    save_image(gallery.folder.parent / "photos" / "cat" / "000.png", 81)  # its row is the last one now
    gallery.update()
    browser = Browser(gallery.planner)
    degrees = gallery.model.encode(gallery.paths).degrees.numpy()
    np.testing.assert_allclose(browser.features.mean, degrees.mean(0), atol=5e-3)
    np.testing.assert_allclose(browser.features.spread, degrees.std(0), atol=5e-3)
    for feature, positions in enumerate(browser.features.shown_by):
        np.testing.assert_allclose(degrees[positions, feature], np.sort(degrees[:, feature])[:-5:-1], atol=5e-3)
        np.testing.assert_allclose(browser.degrees_of_feature(feature), degrees[:, feature], atol=5e-3)


def test_an_empty_gallery_can_be_looked_at(tmp_path):
    browser = Browser(Gallery.create(tmp_path / "g", tiny_model()).planner)
    assert (len(browser), browser.labels, list(browser.positions(Filter(), "name"))) == (0, {}, [])
    assert browser.features.mean.tolist() == [0] * 16
    assert browser.features.shown_by.shape == (16, 0)


def test_a_gallery_says_whether_it_is_there(gallery, tmp_path):
    assert Gallery.exists(gallery.folder)
    assert Gallery.exists(str(gallery.folder))
    assert not Gallery.exists(tmp_path)


def test_there_is_a_later_version_when_somebody_wrote_and_only_then(gallery, tmp_path):
    assert gallery.latest_version == gallery.version
    Gallery.open(gallery.folder).search("1")
    assert gallery.latest_version == gallery.version
    save_image(tmp_path / "photos" / "cat" / "new.png", 80)
    Gallery.open(gallery.folder).update()
    assert gallery.latest_version != gallery.version
    gallery.refresh()
    assert gallery.latest_version == gallery.version
