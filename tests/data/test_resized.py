"""Sets, and the squares they become: the same from memory, from disk and decoded anew; broken files are left out."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from makers import file_bytes, noise, save_image, save_images
from PIL import Image
from torch.utils.data import DataLoader

from andornot.data import BrokenImageError, DataError, ImageSet, open_images
from andornot.data.cache import DiskCache, default_cache_folder
from andornot.data.converting import square
from andornot.data.imageset import Chosen, multi_hot
from andornot.data.readers import ArrayReader, FileReader


@pytest.fixture
def photos(tmp_path):
    save_images(tmp_path / "photos", 24)
    return tmp_path / "photos"


@pytest.fixture
def labelled():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 10, 3), dtype=np.uint8)
    return ImageSet(
        ArrayReader(pixels),
        [f"made/{i}" for i in range(6)],
        labels=multi_hot(np.arange(6) % 3, 3),
        class_names=("a", "b", "c"),
        boxes=[[(i % 3, (0, 0, i, i))] for i in range(6)],
        split="train",
        splits=("train", "test"),
    )


def on_disk(images, folder, size=16, **options):
    return images.resized(size, memory_limit=0, cache=folder, **options)


def decoded(images, size=16, **options):
    return images.resized(size, memory_limit=0, cache_limit=0, **options)


# The set


def test_a_set_is_lazy():
    images = ImageSet(FileReader(["/nowhere/a.jpg"]), ["/nowhere/a.jpg"])
    assert len(images) == 1
    assert images.name(0) == "/nowhere/a.jpg"
    with pytest.raises(BrokenImageError, match="no such file"):
        images.images[0]


def test_images_have_their_original_size(photos):
    images = open_images(photos)
    assert [tuple(image.shape) for image in images.images][:3] == [(3, 30, 40), (3, 31, 39), (3, 32, 38)]
    assert images.images[0].dtype == torch.uint8
    with pytest.raises(TypeError, match="one by one"):
        images.images[:2]


def test_a_set_is_a_data_set_of_torch(labelled):
    image, label = labelled[4]
    assert torch.equal(image, labelled.images[4])
    assert label.tolist() == [False, True, False]
    assert [one.tolist() for _, one in labelled] == labelled.labels.tolist(), "a loop ends after the last"
    assert torch.equal(labelled[np.int64(-1)][0], labelled.images[5])
    with pytest.raises(IndexError):
        labelled[6]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_makes_batches_of_it(labelled, workers):
    images, labels = zip(*DataLoader(labelled, batch_size=4, num_workers=workers), strict=True)
    assert [tuple(batch.shape) for batch in images] == [(4, 3, 8, 10), (2, 3, 8, 10)]
    assert torch.equal(torch.cat(images), torch.stack(list(labelled.images)))
    assert torch.equal(torch.cat(labels), labelled.labels)


def test_without_labels_a_label_is_an_empty_row_that_batches_can_be_made_of(photos):
    images = open_images(photos, transform=lambda image: image[:, :8, :8].float() / 255)
    (batch, labels), *_ = DataLoader(images, batch_size=5)
    assert (batch.shape, batch.dtype, labels.shape) == ((5, 3, 8, 8), torch.float32, (5, 0))
    assert images.images[0].dtype == torch.uint8, "the originals are what they were"
    assert images.subset([3])[0][0].shape == (3, 8, 8), "a subset has the transform too"


def test_the_labels_are_what_torchmetrics_takes(labelled):
    from torchmetrics.classification import MultilabelAccuracy

    accuracy = MultilabelAccuracy(num_labels=3)
    for _, labels in DataLoader(labelled, batch_size=4):
        accuracy.update(labels.float(), labels)
    assert accuracy.compute() == 1


def test_a_subset_keeps_everything_aligned(labelled):
    part = labelled.subset([4, -1, 0]).subset(torch.tensor([1, 0]))
    assert list(part.names) == ["made/5", "made/4"]
    assert part.labels.tolist() == [[False, False, True], [False, True, False]]
    assert list(part.boxes) == [[(2, (0, 0, 5, 5))], [(1, (0, 0, 4, 4))]]
    assert torch.equal(part.images[1], labelled.images[4])
    assert (part.class_names, part.split, part.splits) == (("a", "b", "c"), "train", ("train", "test"))
    assert torch.equal(part.resized(8)[0], labelled.resized(8)[5])


def test_a_subset_by_mask(labelled):
    assert list(labelled.subset(labelled.labels[:, 1]).names) == ["made/1", "made/4"]
    with pytest.raises(DataError, match="mask"):
        labelled.subset([True, False])
    with pytest.raises(DataError, match="numbered from 0"):
        labelled.subset([6])


def test_a_set_that_does_not_fit_together_is_refused():
    reader = ArrayReader(np.zeros((2, 4, 4), np.uint8))
    with pytest.raises(ValueError, match="1 names for 2 images"):
        ImageSet(reader, ["a"])
    with pytest.raises(ValueError, match="labels are bool"):
        ImageSet(reader, ["a", "b"], labels=torch.zeros(2, 3), class_names="abc")


def test_chosen_is_a_sequence():
    items = Chosen("abcdef", np.array([5, 0, 2]))
    assert list(items) == ["f", "a", "c"]
    assert list(items[1:]) == ["a", "c"]
    assert len(items) == 3


# Squares


def test_crop_is_the_center_and_squash_is_all():
    stripes = Image.fromarray(np.repeat(np.repeat(np.array([[0, 100, 200]], np.uint8), 20, 0), 20, 1))  # 60 x 20
    assert np.asarray(square(stripes, 10, "crop"))[:, 2:8].tolist() == [[100] * 6] * 10
    squashed = np.asarray(square(stripes, 30, "squash"))
    assert (squashed[0, 3], squashed[0, 15], squashed[0, 26]) == (0, 100, 200)


def test_crop_is_resizing_the_shorter_side_and_then_cropping():
    image = Image.fromarray(noise(3, 40, 80))
    resized = image.resize((40, 20), Image.Resampling.BICUBIC).crop((10, 0, 30, 20))
    assert np.abs(np.asarray(square(image, 20), int) - np.asarray(resized, int)).max() <= 2


def test_resizing_is_antialiased():
    checks = Image.fromarray((np.indices((64, 64)).sum(0) % 2 * 255).astype(np.uint8))
    assert np.abs(np.asarray(square(checks, 16), int) - 127).max() <= 2


def test_a_tiny_or_thin_image_becomes_a_square():
    for size in ((1, 1), (500, 1), (1, 300)):
        for fit in ("crop", "squash"):
            assert square(Image.new("RGB", size, "red"), 9, fit).getpixel((4, 4)) == (255, 0, 0)


@pytest.mark.parametrize("fit", ["crop", "squash"])
def test_memory_disk_and_decoding_give_the_same_images(photos, tmp_path, fit):
    images = open_images(photos)
    memory = images.resized(16, fit)
    disk = on_disk(images, tmp_path / "cache", fit=fit)
    anew = decoded(images, fit=fit, workers=3)
    assert [p.storage for p in (memory, disk, anew)] == ["memory", "disk", "decoded"]
    index = torch.tensor([3, 0, 23, 3, -1])
    expected = torch.stack([torch.from_numpy(np.array(square(images.read(i, 16), 16, fit))) for i in index.tolist()])
    for resized in (memory, disk, anew):
        assert resized.shape == (24, 3, 16, 16)
        assert torch.equal(resized[index], expected.permute(0, 3, 1, 2))
        assert torch.equal(resized[[3, 0]], expected[:2].permute(0, 3, 1, 2))
        assert torch.equal(resized[23], resized[-1])
        assert torch.equal(resized[2:20:5], memory[torch.tensor([2, 7, 12, 17])])
        assert torch.equal(resized[torch.arange(24) > 20], memory[torch.tensor([21, 22, 23])])
        assert resized[torch.tensor([], dtype=torch.int64)].shape == (0, 3, 16, 16)
        assert list(resized.names) == list(images.names)
        assert resized.broken == []
        assert resized.broken_report() == ""


def test_what_is_taken_out_is_a_copy(labelled, tmp_path):
    for images in (labelled.resized(8), on_disk(labelled, tmp_path), decoded(labelled)):
        before = images[0].clone()
        images[torch.tensor([0])].zero_()
        images[0].zero_()
        images[:].zero_()
        assert torch.equal(images[0], before)


def test_a_number_of_numpy_is_an_index(labelled):
    images = labelled.resized(8)
    assert torch.equal(images[np.int64(3)], images[3])


def test_a_subset_names_the_number_that_there_is_not(labelled):
    with pytest.raises(DataError, match="; -6000 was asked for"):
        labelled.subset([-6000, 3])


def test_a_wrong_index_is_an_error(labelled):
    images = labelled.resized(8)
    for index in (6, -7, [0, 6], torch.tensor([[0]]), torch.ones(5, dtype=torch.bool)):
        with pytest.raises(IndexError):
            images[index]


def test_images_that_have_the_size_already_are_taken_as_they_are():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    images = ImageSet(ArrayReader(pixels), list("abcde"), channels=1)
    assert torch.equal(images.subset([3, 1]).resized(28)[:], torch.from_numpy(pixels[[3, 1]])[:, None])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"size": 0}, "1 or more"), ({"size": 8, "fit": "cop"}, 'did you mean "crop"')],
)
def test_wrong_arguments(labelled, arguments, message):
    with pytest.raises(DataError, match=message):
        labelled.resized(**arguments)


def test_no_images_at_all(labelled):
    with pytest.raises(DataError, match="the set is empty"):
        labelled.subset([]).resized(8)


# Broken files


@pytest.fixture
def half_broken(tmp_path):
    """500 files, every tenth of which is broken in one of five ways."""
    folder = tmp_path / "mixed"
    whole = file_bytes(Image.fromarray(noise(0, 24, 24)), "JPEG")
    kinds = [whole[:-60], b"a text", b"", whole[:100], b"\x89PNG\r\n\x1a\n"]
    folder.mkdir()
    for i in range(500):
        (folder / f"{i:03}.jpg").write_bytes(kinds[i // 10 % 5] if i % 10 == 7 else whole)
    return folder


def test_fifty_broken_of_five_hundred_are_left_out_and_listed(half_broken, tmp_path):
    images = open_images(half_broken)
    memory, disk, anew = images.resized(8), on_disk(images, tmp_path / "cache", 8), decoded(images, 8)
    again = on_disk(images, tmp_path / "cache", 8)
    for resized in (memory, disk, anew, again):
        assert len(resized) == 450
        assert len(resized.names) == 450
        assert [name[-7:] for name, _ in resized.broken] == [f"{i:03}.jpg" for i in range(7, 500, 10)]
        assert all(reason for _, reason in resized.broken)
        assert resized.kept.tolist() == [i for i in range(500) if i % 10 != 7]
        assert torch.equal(resized[:], memory[:])
    lines = memory.broken_report().splitlines()
    assert lines[0] == "50 of 500 images could not be read:"
    assert len(lines) == 12
    assert lines[-1].endswith("40 more")


def test_labels_stay_aligned_when_images_are_left_out(tmp_path):
    for i, name in enumerate(("cat", "dog", "emu")):
        save_image(tmp_path / name / "0.png", i)
        save_image(tmp_path / name / "1.png", i)
    (tmp_path / "dog" / "0.png").write_bytes(b"broken")
    images = open_images(tmp_path).resized(8)
    assert [Path(name).parent.name for name in images.names] == ["cat", "cat", "dog", "emu", "emu"]
    assert images.labels.int().argmax(1).tolist() == [0, 0, 1, 2, 2]


def test_strict_makes_a_broken_file_an_error(half_broken, tmp_path):
    images = open_images(half_broken)
    cache = tmp_path / "cache"
    for load in (lambda **o: images.resized(8, **o), lambda **o: on_disk(images, cache, 8, **o)):
        with pytest.raises(BrokenImageError, match=r"007\.jpg: "):
            load(strict=True)
    on_disk(images, cache, 8)
    with pytest.raises(BrokenImageError, match=r"007\.jpg: "):  # also when the cache knows it already
        on_disk(images, cache, 8, strict=True)


def test_a_set_without_any_readable_image_is_an_error(tmp_path):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"text")
    images = open_images(tmp_path)
    for load in (images.resized, lambda size: on_disk(images, tmp_path / "cache", size), lambda s: decoded(images, s)):
        with pytest.raises(DataError, match=r"none of the 2 images can be read; .*a\.jpg: not an image"):
            load(8)


def test_an_image_that_vanishes_later_is_named(photos):
    images = decoded(open_images(photos))
    (photos / "003.jpg").unlink()
    with pytest.raises(BrokenImageError, match=r"003\.jpg: no such file"):
        images[3]


# The cache


class Counting(FileReader):
    """Files, and how many were read."""

    def __init__(self, paths):
        super().__init__(paths)
        self.count = 0

    def read(self, index, size=None):
        self.count += 1
        return super().read(index, size)


def counting(folder):
    paths = [str(path) for path in sorted(folder.iterdir())]
    return ImageSet(Counting(paths), paths)


def test_the_cache_is_used_again(photos, tmp_path):
    first, second = counting(photos), counting(photos)
    assert torch.equal(on_disk(first, tmp_path / "c")[:], on_disk(second, tmp_path / "c")[:])
    assert (first.reader.count, second.reader.count) == (24, 0)


def test_the_cache_is_written_once_when_several_want_it(photos, tmp_path):
    sets = [counting(photos) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda images: on_disk(images, tmp_path / "c")[:], sets))
    assert sum(images.reader.count for images in sets) == 24
    assert all(torch.equal(result, results[0]) for result in results)


def test_the_cache_follows_changes(photos, tmp_path):
    on_disk(counting(photos), tmp_path / "c")
    changed = counting(photos)
    save_image(photos / "003.jpg", 99)
    assert torch.equal(on_disk(changed, tmp_path / "c")[3], changed.resized(16)[3])
    for options in ({"size": 12}, {"fit": "squash"}):
        other = counting(photos)
        assert torch.equal(on_disk(other, tmp_path / "c", **options)[:], other.resized(**{"size": 16, **options})[:])
        assert other.reader.count == 48


def test_the_cache_stays_below_its_limit(photos, tmp_path):
    entry = 24 * 3 * 16 * 16
    for fit in ("crop", "squash"):
        on_disk(open_images(photos), tmp_path / "c", fit=fit)
        time.sleep(0.02)
    on_disk(open_images(photos), tmp_path / "c", fit="crop")  # used now, so squash is the older one
    time.sleep(0.02)
    on_disk(open_images(photos), tmp_path / "c", 15, cache_limit=int(2.5 * entry))
    assert len(list((tmp_path / "c").glob("*.images"))) == 2
    again = counting(photos)
    on_disk(again, tmp_path / "c", fit="crop")
    assert again.reader.count == 0


def test_images_stay_readable_when_their_cache_is_removed(photos, tmp_path):
    images = on_disk(open_images(photos), tmp_path / "c")
    shutil.rmtree(tmp_path / "c")
    assert torch.equal(images[:], open_images(photos).resized(16)[:])


@pytest.mark.parametrize("damage", ["cut", "index", "gone"])
def test_a_damaged_cache_is_written_anew(photos, tmp_path, damage):
    expected = on_disk(open_images(photos), tmp_path / "c")[:].clone()
    (entry,) = (tmp_path / "c").glob("*.images")
    if damage == "cut":
        os.truncate(entry / "pixels.uint8", 1000)
    elif damage == "index":
        (entry / "index.json").write_text("{")
    else:
        (entry / "pixels.uint8").unlink()
    assert torch.equal(on_disk(open_images(photos), tmp_path / "c")[:], expected)


def test_an_interrupted_write_leaves_nothing_behind(tmp_path):
    def rows():
        yield np.zeros((1, 2, 2), np.uint8)
        raise KeyboardInterrupt

    cache = DiskCache(tmp_path / "c", 10**6)
    with pytest.raises(KeyboardInterrupt):
        cache.get_or_write("key", (1, 2, 2), 2, rows())
    assert [path.suffix for path in (tmp_path / "c").iterdir()] in ([], [".lock"])


@pytest.mark.skipif(sys.platform == "win32", reason="needs kill")
def test_a_killed_write_leaves_no_damaged_cache(photos, tmp_path):
    program = f"""
        import os, signal, sys
        import numpy as np
        from andornot.data.cache import DiskCache
        def rows():
            for i in range(24):
                if i == 12:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield np.full((3, 16, 16), i, np.uint8)
        DiskCache({str(tmp_path / "c")!r}, 10**9).get_or_write(sys.argv[1], (3, 16, 16), 24, rows())
    """
    on_disk(open_images(photos), tmp_path / "c")
    (entry,) = (tmp_path / "c").glob("*.images")
    shutil.rmtree(entry)
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(program), entry.stem], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "c" / f"{entry.stem}.part").is_dir()
    (tmp_path / "c" / "another.part").mkdir()
    images = open_images(photos)
    assert torch.equal(on_disk(images, tmp_path / "c")[:], images.resized(16)[:])
    assert not list((tmp_path / "c").glob("*.part"))  # both leftovers are gone


def test_without_a_place_for_the_cache_images_are_decoded_anew(photos, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.warns(UserWarning, match="decoded anew each time"):
        images = on_disk(open_images(photos), tmp_path / "file" / "c")
    assert images.storage == "decoded"


def test_the_default_cache_is_the_users(monkeypatch, tmp_path, photos):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ANDORNOT_CACHE", raising=False)
    assert default_cache_folder() == tmp_path / "andornot"
    monkeypatch.setenv("ANDORNOT_CACHE", str(tmp_path / "mine"))
    assert open_images(photos).resized(16, memory_limit=0).storage == "disk"
    assert list((tmp_path / "mine").glob("*.images"))


def test_sets_and_their_squares_can_be_sent_to_another_process(photos, tmp_path):
    images = open_images(photos)
    expected = images.resized(16)[:]
    anew = decoded(images)
    assert torch.equal(anew[:], expected)  # its threads are running
    for thing in (images.resized(16), on_disk(images, tmp_path / "c"), anew):
        assert torch.equal(pickle.loads(pickle.dumps(thing))[:], expected)


def test_targets_are_class_numbers_where_each_image_has_one_class():
    digits = open_images("digits").subset([0, 600, 4999])
    assert digits.targets.tolist() == [int(digits.class_names[row.int().argmax()]) for row in digits.labels]
    assert torch.equal(digits.resized(8).targets, digits.targets)
    scenes = open_images("scenes?count=8")
    assert torch.equal(scenes.targets, scenes.labels)
    scenes.labels = None
    assert scenes.targets is None
