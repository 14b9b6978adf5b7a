"""`index`: whatever happens to files, the gallery follows, and encodes only what it must."""

import errno
import os
import shutil
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import assert_same_contents, contents, photos, save_image, tiny_model, tiny_recipe, touch_later
from PIL import Image

from andornot.commands.main import main
from andornot.files import open_regular
from andornot.gallery import (
    Filter,
    Gallery,
    GalleryError,
    Summary,
    encoding,
    indexing,
    scanning,
    writing,
)
from andornot.gallery.errors import LockedError
from andornot.gallery.storage import HOLDER, Storage
from andornot.gallery.storage import writing as lock_held
from andornot.model import Model


@pytest.fixture(scope="session")
def model() -> Model:
    return tiny_model()


@pytest.fixture
def folder(tmp_path) -> Path:
    return photos(tmp_path / "photos", 12)


@pytest.fixture
def gallery(tmp_path, model, folder) -> Gallery:
    made = Gallery.create(tmp_path / "g", model)
    assert made.add(folder) == Summary(added=12)
    return made


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """How many images went through the backbone, batch by batch."""
    counts: list[int] = []
    original = Model.iter_placed_maps
    monkeypatch.setattr(
        Model,
        "iter_placed_maps",
        lambda self, images, **how: (counts.append(len(images)), original(self, images, **how))[1],
    )
    return counts


def fresh(gallery: Gallery, where: Path) -> Gallery:
    """A gallery of the same folders that was made in one go."""
    other = Gallery.create(where, gallery.model)
    other.add(gallery.folders)
    return other


def stored_files(gallery: Gallery) -> dict[str, bytes]:
    files = [path for path in sorted(gallery.folder.rglob("*")) if path.is_file() and path.name != "lock"]
    return {str(path): path.read_bytes() for path in files}


# --- what is stored -------------------------------------------------------------------------------------------------


def test_features_are_those_of_the_model_in_half_precision(gallery, model, folder):
    stored = contents(gallery)
    assert list(stored) == [str(folder / f"{number:03}.png") for number in range(12)]
    expected = model.activations(list(stored)).half().numpy()
    np.testing.assert_allclose(np.stack(list(stored.values())), expected, rtol=2e-3, atol=1e-3)
    assert Gallery.open(gallery.folder).model.id == model.id


def test_everything_is_the_same_after_opening_again(gallery):
    again = Gallery.open(gallery.folder)
    assert (again.ids, again.paths, again.folders) == (gallery.ids, gallery.paths, gallery.folders)
    assert_same_contents(gallery, again)


def test_a_gallery_does_not_go_into_a_folder_with_other_things(tmp_path, model, folder):
    with pytest.raises(GalleryError, match=r"not empty, and no gallery \(000.png is in it\)"):
        Gallery.create(folder, model)
    Gallery.create(tmp_path / "g", model)
    with pytest.raises(GalleryError, match="holds a gallery already"):
        Gallery.create(tmp_path / "g", model)


def test_no_gallery_is_one_clear_line(tmp_path):
    for folder in (tmp_path / "nothing", tmp_path):
        with pytest.raises(GalleryError, match=f"there is no gallery in {folder}: andornot index FOLDER --gallery"):
            Gallery.open(folder)


def test_a_gallery_of_an_earlier_version_is_one_clear_line(tmp_path, model):
    (tmp_path / "gallery.sqlite").write_bytes(b"")
    for use in (Gallery.open, Gallery.exists, lambda folder: Gallery.create(folder, model)):
        with pytest.raises(GalleryError, match="earlier version of andornot: index the images again, into a new"):
            use(tmp_path)


# --- files that change ----------------------------------------------------------------------------------------------


def test_a_second_index_does_nothing(gallery, folder, encoded):
    before, version = stored_files(gallery), gallery.version
    assert gallery.add(folder) == gallery.update() == Summary(unchanged=12)
    assert encoded == []
    assert (stored_files(gallery), gallery.version) == (before, version)


def test_touched_files_are_recognised_by_their_content(gallery, folder, encoded):
    for path in folder.iterdir():
        touch_later(path)
    assert gallery.update() == Summary(unchanged=12)
    assert encoded == []
    assert gallery.update() == Summary(unchanged=12)


def test_moved_files_keep_their_ids_and_are_not_encoded(gallery, folder, encoded):
    ids = dict(zip(gallery.paths, gallery.ids, strict=True))
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "003.png").rename(folder / "deep" / "er" / "other name.png")
    assert gallery.update() == Summary(moved=1, unchanged=11)
    assert encoded == []
    now = dict(zip(gallery.paths, gallery.ids, strict=True))
    assert now[str(folder / "deep" / "er" / "other name.png")] == ids[str(folder / "003.png")]
    assert str(folder / "003.png") not in now


def test_a_whole_folder_that_was_moved_keeps_its_ids(gallery, folder, tmp_path, encoded):
    ids = gallery.ids
    folder.rename(tmp_path / "moved")
    with pytest.raises(GalleryError, match="is not there, and the gallery has 12 images from it"):
        gallery.update()
    assert gallery.add(tmp_path / "moved") == Summary(moved=12)
    assert (gallery.ids, encoded) == (ids, [])
    gallery.update(prune=True)
    assert gallery.folders == (str(tmp_path / "moved"),)
    assert len(gallery) == 12


def test_changed_files_are_encoded_again_and_keep_their_ids(gallery, folder, tmp_path, encoded):
    ids = gallery.ids
    save_image(folder / "004.png", 99)
    touch_later(folder / "004.png")
    assert gallery.update() == Summary(changed=1, unchanged=11)
    assert (gallery.ids, encoded) == (ids, [1])
    assert_same_contents(gallery, fresh(gallery, tmp_path / "again"))


def test_deleted_files_are_dropped_and_their_ids_never_used_again(gallery, folder):
    for number in (10, 11):
        (folder / f"{number:03}.png").unlink()
    assert gallery.update() == Summary(removed=2, unchanged=10)
    save_image(folder / "new.png", 100)
    assert gallery.update() == Summary(added=1, unchanged=10)
    assert gallery.ids == [*range(1, 11), 13]


def test_two_files_with_one_content_are_two_images_encoded_once(gallery, folder, tmp_path, encoded):
    shutil.copy(folder / "001.png", folder / "copy of 1.png")
    for name in ("twin a.png", "twin b.png"):
        save_image(folder / name, 50)
    assert gallery.update() == Summary(added=3, unchanged=12)
    assert encoded == [1]
    assert_same_contents(gallery, fresh(gallery, tmp_path / "again"))


def test_files_that_change_places_take_their_features_with_them(gallery, folder, tmp_path, encoded):
    a, b, c = (folder / f"{number:03}.png" for number in range(3))
    a.rename(folder / "x.png")
    b.rename(a)
    (folder / "x.png").rename(b)
    save_image(c, 77)
    touch_later(c)
    shutil.copy(folder / "005.png", folder / "z.png")
    save_image(folder / "005.png", 78)
    touch_later(folder / "005.png")
    assert gallery.update() == Summary(added=1, changed=4, unchanged=8)
    assert sum(encoded) == 2
    encoded.clear()
    assert_same_contents(gallery, fresh(gallery, tmp_path / "again"))


def test_copies_of_a_touched_file_on_both_sides_of_it_are_copies_of_what_is_stored(gallery, folder, encoded):
    shutil.copy(folder / "003.png", folder / "000 copy.png")
    shutil.copy(folder / "003.png", folder / "later copy.png")
    touch_later(folder / "003.png")
    assert gallery.update() == Summary(added=2, unchanged=12)
    assert encoded == []
    stored = contents(gallery)
    for name in ("000 copy.png", "later copy.png"):
        assert (stored[str(folder / name)] == stored[str(folder / "003.png")]).all()


@pytest.mark.parametrize("seed", range(3))
def test_an_incremental_index_equals_a_fresh_one(seed, gallery, folder, tmp_path):
    """Random adding, changing, moving, copying and deleting, with an index now and then."""
    rng = np.random.default_rng(seed)
    for step in range(25):
        files = sorted(path for path in folder.rglob("*.png"))
        chosen = files[rng.integers(len(files))]
        match rng.integers(6):
            case 0:
                save_image(folder / f"new {step}.png", int(rng.integers(40)))
            case 1:
                save_image(chosen, int(rng.integers(40)))
                touch_later(chosen)
            case 2:
                target = folder / f"deep {step % 3}" / f"moved {step}.png"
                target.parent.mkdir(exist_ok=True)
                chosen.rename(target)
            case 3:
                shutil.copy(chosen, folder / f"copy {step}.png")
            case 4 if len(files) > 3:
                chosen.unlink()
            case _:
                gallery.update()
                assert len(gallery) == len(list(folder.rglob("*.png")))
    gallery.update()
    assert_same_contents(gallery, fresh(gallery, tmp_path / "again"))
    assert len(set(gallery.ids)) == len(gallery)


# --- folders --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_a_disk_that_is_not_mounted_does_not_empty_the_gallery(how, gallery, folder):
    shutil.rmtree(folder)
    if how == "empty":
        folder.mkdir()
    with pytest.raises(GalleryError, match=r"the gallery has 12 images from it: is a disk not mounted\? --prune"):
        gallery.update()
    assert len(Gallery.open(gallery.folder)) == 12
    assert gallery.update(prune=True) == Summary(removed=12)
    assert len(gallery) == 0
    assert gallery.folders == ((str(folder),) if how == "empty" else ())


def test_only_the_folders_given_are_looked_through(gallery, folder, tmp_path):
    save_image(folder / "new.png", 50)
    assert gallery.add(photos(tmp_path / "more", 3, start=20)) == Summary(added=3)
    assert gallery.folders == (str(tmp_path / "more"), str(folder))
    (folder / "000.png").rename(tmp_path / "more" / "from the other.png")
    assert gallery.add([tmp_path / "more"]) == Summary(moved=1, unchanged=3)
    assert gallery.update() == Summary(added=1, unchanged=15)


def test_folders_may_lie_in_one_another(gallery, folder):
    photos(folder / "inner", 2, start=30)
    assert gallery.add(folder / "inner") == Summary(added=2)
    assert gallery.update() == Summary(unchanged=14)
    (folder / "inner" / "030.png").unlink()
    assert gallery.add(folder / "inner") == Summary(removed=1, unchanged=1)


def test_single_files_can_be_added_and_are_followed(gallery, tmp_path):
    single = save_image(tmp_path / "elsewhere" / "one.png", 60)
    assert gallery.add(str(single)) == Summary(added=1)
    assert gallery.update() == Summary(unchanged=13)
    single.unlink()
    assert gallery.update() == Summary(removed=1, unchanged=12)


def test_removed_images_are_out_and_their_files_stay(gallery, folder):
    assert gallery.remove(["000.png", "5"]) == 2
    assert len(gallery) == 10
    assert (folder / "000.png").exists()
    with pytest.raises(GalleryError, match=r'no image is called "nobody\.png"'):
        gallery.remove("nobody.png")
    assert gallery.update() == Summary(added=2, unchanged=10)
    assert gallery.ids[-2:] == [13, 14]


def test_a_folder_without_images_is_one_clear_line(gallery, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(GalleryError, match="has no image in it; file names that end in"):
        gallery.add(tmp_path / "empty")
    with pytest.raises(GalleryError, match="is not a folder"):
        gallery.add(tmp_path / "nowhere")


def test_odd_names_a_symlink_loop_and_broken_files(tmp_path, model):
    folder = tmp_path / "photos"
    names = ["with space.png", 'quo"te.png', "it's.png", "ünï code 図.png", "a & b.png", "new\nline.png", "~tilde.png"]
    for seed, name in enumerate(names):
        save_image(folder / name, seed)
    (folder / os.fsdecode(b"\xff\xfe.png")).write_bytes((folder / names[0]).read_bytes())  # a name that is no text
    (folder / "loop").symlink_to(folder)
    (folder / "dangling.png").symlink_to(tmp_path / "nothing")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("no image")
    (folder / "cut.png").write_bytes((folder / names[0]).read_bytes()[:300])
    os.mkfifo(folder / "pipe.jpg")
    gallery = Gallery.create(tmp_path / "g", model)
    summary = gallery.add(folder)
    assert summary.added == 8
    assert {Path(path).name for path in summary.broken} == {"empty.jpg", "text.jpg", "cut.png", "pipe.jpg"}
    assert summary.broken[str(folder / "empty.jpg")] == "0 bytes"
    assert summary.broken[str(folder / "pipe.jpg")] == "not a regular file"
    assert gallery.broken == summary.broken
    again = gallery.update()
    assert (again.unchanged, again.broken, again.is_news) == (8, summary.broken, False)
    for number, name in enumerate(names):
        quoted = name.replace('"', '\\"')
        hits = gallery.search(f'"{quoted}"', top=1, include_queries=True, score="degrees")
        assert hits[0].distance < 1e-3, number


def test_broken_files_are_not_tried_again_until_they_change(gallery, folder, monkeypatch):
    (folder / "later.png").write_bytes(b"half an image")
    assert list(gallery.update().broken) == [str(folder / "later.png")]
    tried: list[str] = []
    original = encoding.scan_all
    monkeypatch.setattr(encoding, "scan_all", lambda paths, *rest: (tried.extend(paths), original(paths, *rest))[1])
    gallery.update()
    assert tried == []
    save_image(folder / "later.png", 70)
    assert gallery.update() == Summary(added=1, unchanged=12)
    assert gallery.broken == {}


def test_an_image_that_becomes_unreadable_is_dropped_and_listed(gallery, folder):
    (folder / "000.png").write_bytes(b"overwritten")
    summary = gallery.update()
    assert (len(gallery), list(summary.broken)) == (11, [str(folder / "000.png")])


def test_a_file_that_nobody_may_look_at_is_not_taken_for_deleted(gallery, folder, monkeypatch):
    stat = os.stat

    def refuse(path, *args, **kwargs):
        if str(path).endswith("000.png"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *args, **kwargs)

    (folder / "000.png").rename(folder / ".hidden")
    monkeypatch.setattr(os, "stat", refuse)
    assert gallery.update() == Summary(unchanged=11)
    assert len(gallery) == 12


def test_a_file_that_cannot_be_read_for_now_is_kept_and_tried_again(gallery, folder, monkeypatch):
    save_image(folder / "new.png", 80)
    touch_later(folder / "000.png")

    def refuse(path):
        if Path(path).name in ("000.png", "new.png"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_regular(path)

    monkeypatch.setattr(scanning, "open_regular", refuse)
    summary = gallery.update()
    assert summary.broken == {str(folder / name): "Permission denied" for name in ("000.png", "new.png")}
    assert (len(gallery), gallery.broken) == (12, {})
    monkeypatch.undo()
    assert gallery.update() == Summary(added=1, unchanged=12)


# --- dates ----------------------------------------------------------------------------------------------------------


def test_the_time_of_an_image_is_the_cameras_else_the_files(tmp_path, model):
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2019:07:04 18:30:00"
    save_image(tmp_path / "p" / "camera.jpg", 1, exif=exif)
    plain = save_image(tmp_path / "p" / "plain.jpg", 2)
    os.utime(plain, (1_600_000_000, 1_600_000_000))  # in September 2020
    damaged = save_image(tmp_path / "p" / "damaged.jpg", 3, exif=b"Exif\0\0MM\0*nonsense of a date")
    os.utime(damaged, (1_700_000_000, 1_700_000_000))  # in November 2023
    gallery = Gallery.create(tmp_path / "g", model)
    assert gallery.add(tmp_path / "p").added == 3

    def found(**where: object) -> set[str]:
        hits = gallery.search("plain.jpg", include_queries=True, filter=Filter(**where))
        return {Path(hit.path).name for hit in hits}

    assert found(after="2019", before="2020") == {"camera.jpg"}
    assert found(after=2019, before=date(2019, 7, 5)) == {"camera.jpg"}
    assert found(after="2019-07-04", before="2019-07-05") == {"camera.jpg"}
    assert found(after="2019-07-04 18:30", before="2019-07-04T18:31") == {"camera.jpg"}
    assert found(after="2019-07-04 18:31") == set()
    assert found(after="2019-07-04 18:31", file_dates=True) == {"plain.jpg", "damaged.jpg"}
    assert found(before="2020-09") == {"camera.jpg"}
    assert found(after="2030") == set()
    with pytest.raises(GalleryError, match='"soon" is no date'):
        found(after="soon")


# --- models ---------------------------------------------------------------------------------------------------------


def test_a_gallery_calibrates_its_own_model_in_one_pass(tmp_path, folder, encoded):
    gallery = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    with pytest.raises(GalleryError, match=r"the first index of .* was not finished"):
        gallery.search("000.png")
    gallery.add(folder)
    assert encoded == [12]
    stored = np.stack(list(contents(gallery).values()))
    expected = Model.calibrated(gallery.model.backbone, torch.from_numpy(stored).float(), gallery.model.recipe)
    assert gallery.model.id == expected.id
    assert Model.load(gallery.folder / f"model-{gallery.model.id}").id == gallery.model.id


def test_three_images_are_enough(tmp_path):
    gallery = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    gallery.add(photos(tmp_path / "three", 3))
    assert len(gallery.search("000.png & ~001.png")) == 1
    assert {hit.id for hit in gallery.search("000.png | 001.png | 002.png", include_queries=True)} == {1, 2, 3}
    assert gallery.search("000.png | 001.png | 002.png") == []


def test_a_folder_of_nothing_but_broken_files_is_one_clear_line_and_can_be_mended(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    gallery = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    with pytest.raises(GalleryError, match=r"none of the 1 images can be read; .*a\.jpg: 0 bytes"):
        gallery.add(tmp_path / "photos")
    save_image(tmp_path / "photos" / "a.jpg", 1)
    assert gallery.add(tmp_path / "photos") == Summary(added=1)


def test_recalibration_is_worth_it_after_much_growth_and_runs_no_backbone(tmp_path, encoded):
    gallery = Gallery.create(tmp_path / "g", recipe=tiny_recipe())
    gallery.add(photos(tmp_path / "photos", 4))
    assert not gallery.needs_recalibration
    photos(tmp_path / "photos", 40, start=4)
    gallery.update()
    assert gallery.needs_recalibration
    before, distances = gallery.model.id, [hit.distance for hit in gallery.search("000.png & 001.png")]
    reader = Gallery.open(gallery.folder)
    assert [hit.distance for hit in reader.search("000.png & 001.png")] == distances
    encoded.clear()
    gallery.recalibrate()
    assert encoded == []
    assert gallery.model.id != before
    assert not gallery.needs_recalibration
    again = Gallery.create(tmp_path / "again", recipe=tiny_recipe())
    again.add(tmp_path / "photos")
    np.testing.assert_allclose(again.model.head.quantiles, gallery.model.head.quantiles, rtol=2e-3, atol=1e-3)
    now = [hit.distance for hit in gallery.search("000.png & 001.png")]
    assert now != distances
    reader.refresh()
    assert [hit.distance for hit in reader.search("000.png & 001.png")] == now


def test_a_trained_model_is_not_calibrated_anew(tmp_path, folder):
    from andornot.model import new_network
    from andornot.ssl.recipe import make_recipe

    settings = {"backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 3, "num_values": 4}
    recipe = make_recipe({**settings, "predictor_hidden": 8})
    gallery = Gallery.create(tmp_path / "g", Model.from_network(new_network(recipe, 3).eval(), recipe))
    gallery.add(folder)
    assert len(gallery.search("000.png - 001.png", score="cross-entropy")) == 10
    with pytest.raises(GalleryError, match="was trained"):
        gallery.recalibrate()


def test_another_model_is_refused(gallery):
    with pytest.raises(GalleryError, match=r"was made with model .*, and this one is .*: leave --model out"):
        gallery.check_model(tiny_model(seed=1))
    tiny_model(seed=1).save(gallery.folder / f"model-{gallery.model.id}")
    with pytest.raises(GalleryError, match="is not the model that the gallery was made with"):
        Gallery.open(gallery.folder).search("000.png")


# --- writers and readers --------------------------------------------------------------------------------------------


def test_a_second_writer_hears_who_holds_the_lock(gallery):
    with (
        lock_held(Storage(gallery.folder)),
        pytest.raises(LockedError, match=f"is being written by process {os.getpid()} on "),
    ):
        gallery.update()
    assert not (gallery.folder / HOLDER).exists()
    gallery.update()


def test_a_lock_that_a_killed_process_left_is_no_hindrance(gallery):
    (gallery.folder / HOLDER).write_text('{"pid": 1}')
    assert gallery.update() == Summary(unchanged=12)


def test_readers_keep_their_snapshot_while_a_writer_works(gallery, folder, monkeypatch):
    monkeypatch.setattr(encoding, "BATCH", 4)
    monkeypatch.setattr(indexing, "COMMIT_SECONDS", 0.0)
    photos(folder, 20, start=12)
    (folder / "000.png").unlink()
    old = Gallery.open(gallery.folder)
    before = [(hit.id, hit.distance) for hit in old.search("001.png", top=50)]
    seen: list[int] = []
    original = writing.Writer.commit

    def commit(self: writing.Writer) -> None:
        original(self)
        reader = Gallery.open(gallery.folder)
        seen.append(len(reader))
        assert len(reader.search("001.png", top=50)) == len(reader) - 1
        assert [(hit.id, hit.distance) for hit in old.search("001.png", top=50)] == before

    monkeypatch.setattr(writing.Writer, "commit", commit)
    gallery.update()
    assert len(set(seen)) > 3
    assert seen[0] >= 12
    assert seen[-1] == 31
    assert [(hit.id, hit.distance) for hit in old.search("001.png", top=50)] == before
    old.refresh()
    assert len(old) == 31


def test_many_changes_leave_readers_alone_and_few_files_behind(gallery, folder):
    old = Gallery.open(gallery.folder)
    before = old.search("001.png", top=50)
    for seed in range(30):
        for number in range(5):
            save_image(folder / f"{number:03}.png", 1000 * (seed + 1) + number)
            touch_later(folder / f"{number:03}.png")
        assert gallery.update() == Summary(changed=5, unchanged=7)
    assert old.search("001.png", top=50) == before
    assert gallery.search("7", include_queries=True)[0].id == 7
    again = Gallery.open(gallery.folder)
    assert_same_contents(gallery, again)
    assert again.ids == old.ids
    old.refresh()
    assert_same_contents(gallery, old)
    assert_same_contents(gallery, fresh(gallery, folder.parent / "again"))


# --- speed of many files --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_files(tmp_path, model):
    content = {}
    for seed in range(200):
        path = save_image(tmp_path / "one.png", seed)
        content[seed] = path.read_bytes()
    for number in range(10_000):
        folder = tmp_path / "photos" / f"{number % 100:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:05}.png").write_bytes(content[number % 200])
    gallery = Gallery.create(tmp_path / "g", model)
    assert gallery.add(tmp_path / "photos") == Summary(added=10_000)
    assert gallery.update() == Summary(unchanged=10_000)
    hits = gallery.search("00000.png", top=60, score="degrees")
    assert sum(hit.distance < 1e-3 for hit in hits) == 49


def test_a_new_gallery_walks_its_folder_once(tmp_path, folder, model, monkeypatch):
    model.save(tmp_path / "model")
    walks, walk = [], scanning.find_images
    monkeypatch.setattr(scanning, "find_images", lambda root, **how: walks.append(how) or walk(root, **how))
    assert main(["index", str(folder), "--gallery", str(tmp_path / "g"), "--model", str(tmp_path / "model")]) == 0
    assert len([how for how in walks if not how.get("first_only")]) == 1


def test_open_creates_a_gallery_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "load_recipe", lambda _: tiny_recipe())
    with pytest.raises(GalleryError, match="there is no gallery"):
        Gallery.open(tmp_path / "g")
    assert len(Gallery.open(tmp_path / "g", create=True)) == 0
    again = Gallery.open(tmp_path / "g", create=True)
    assert again.version == Gallery.open(tmp_path / "g").version
