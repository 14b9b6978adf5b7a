"""Images in folders: without labels, or in a folder for each class; and bare paths, which are recognised."""

import os

import numpy as np
import pytest
from makers import save_image, save_images, write_coco, write_mnist, write_voc_year

from andornot.data import DataError, open_images
from andornot.data.sources import detect_source


def class_folders(root, classes, count=2):
    for number, name in enumerate(classes):
        for i in range(count):
            save_image(root / name / f"{i}.png", 10 * number + i)


def relative(images, root):
    return [os.path.relpath(name, root).replace(os.sep, "/") for name in images.names]


def test_a_folder_is_searched_at_any_depth_and_sorted(tmp_path):
    for name in ("b.jpg", "a/z.PNG", "a/b/c.webp", "c.jpeg"):
        save_image(tmp_path / name)
    for name in ("notes.txt", ".hidden.jpg", ".thumbs/a.jpg", "__MACOSX/b.jpg", "film.mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    images = open_images(f"folder:{tmp_path}")
    assert relative(images, tmp_path) == ["a/b/c.webp", "a/z.PNG", "b.jpg", "c.jpeg"]
    assert images.labels is None
    assert images.class_names == ()
    assert images.channels == 3
    assert len(images.resized(8)) == 4


def test_links_are_followed_but_not_in_circles(tmp_path):
    save_images(tmp_path / "photos" / "deep", 2)
    save_images(tmp_path / "elsewhere", 1)
    (tmp_path / "photos" / "deep" / "up").symlink_to(tmp_path / "photos", target_is_directory=True)
    (tmp_path / "photos" / "other").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "photos" / "self.jpg").symlink_to(tmp_path / "photos" / "self.jpg")
    images = open_images(f"folder:{tmp_path / 'photos'}")
    assert relative(images, tmp_path) == [
        "photos/deep/000.jpg", "photos/deep/001.jpg", "photos/other/000.jpg", "photos/self.jpg"
    ]  # fmt: skip
    assert [name for name, _ in images.resized(8).broken] == [str(tmp_path / "photos" / "self.jpg")]


def test_a_name_that_is_no_text_is_no_problem(tmp_path):
    name = tmp_path / os.fsdecode(b"caf\xe9\n.png")
    try:
        save_image(tmp_path / "a.png").rename(name)
    except OSError:
        pytest.skip("this file system takes text only")
    images = open_images(tmp_path)
    assert len(images.resized(8)) == 1
    assert len(images.resized(8, memory_limit=0, cache=tmp_path / "c")) == 1
    name.write_bytes(b"broken")
    with pytest.raises(DataError) as caught:
        images.resized(8)
    str(caught.value).encode()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["folder", "imagefolder", "imagenet100", "mnist", "cifar10", "voc", "coco"])
def test_an_empty_folder_a_file_and_nothing_are_one_clear_line(tmp_path, source):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("text")
    for name, message in (("empty", "empty"), ("file", "a file; expected a folder"), ("gone", "no such folder")):
        with pytest.raises(DataError) as caught:
            open_images(f"{source}:{tmp_path / name}")
        assert str(tmp_path / name) in str(caught.value)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_looked_into(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(DataError, match="no permission to look into this folder"):
        open_images(tmp_path)


def test_a_folder_inside_that_cannot_be_looked_into_is_told(tmp_path, monkeypatch):
    save_images(tmp_path / "b", 2)
    (tmp_path / "a").mkdir()
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path).endswith("a"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    with pytest.warns(UserWarning, match="a: Permission denied; what is in it is left out"):
        assert len(open_images(f"folder:{tmp_path}")) == 2


def test_an_unlabelled_folder_has_no_splits(tmp_path):
    save_images(tmp_path, 1)
    with pytest.raises(DataError, match='no split "test", it is not divided'):
        open_images(f"folder:{tmp_path}", "test")


def test_a_file_gives_several_labels_or_none(tmp_path):
    save_images(tmp_path, 4)
    names = sorted(file.name for file in tmp_path.iterdir())
    (tmp_path / "labels.csv").write_text(f"{names[2]},dog, person\n{names[0]},cat\n{names[1]}\n")
    images = open_images(f"folder:{tmp_path}?labels=labels.csv")
    assert relative(images, tmp_path) == [names[2], names[0], names[1]]
    assert images.class_names == ("cat", "dog", "person")
    assert images.labels.int().tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a.jpg,dog\n", 'there is no image "a.jpg"'), ("", "no labels"), (None, "the labels cannot be read")],
)
def test_labels_that_do_not_fit_are_one_clear_error(tmp_path, text, message):
    if text is not None:
        (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        open_images(f"folder:{tmp_path}?labels=labels.csv")


def test_class_folders_give_labels(tmp_path):
    class_folders(tmp_path, ["zebra", "ant"])
    save_image(tmp_path / "ant" / "deeper" / "x.png")
    images = open_images(f"imagefolder:{tmp_path}")
    assert images.class_names == ("ant", "zebra")
    assert relative(images, tmp_path) == ["ant/0.png", "ant/1.png", "ant/deeper/x.png", "zebra/0.png", "zebra/1.png"]
    assert images.labels.int().tolist() == [[1, 0]] * 3 + [[0, 1]] * 2


@pytest.mark.parametrize(
    ("folders", "splits"),
    [
        (["train", "test"], ("train", "test")),
        (["train", "validation"], ("train", "val")),
        (["train.X1", "val.X"], ("train", "val")),
    ],
)
def test_splits_above_the_class_folders(tmp_path, folders, splits):
    class_folders(tmp_path / folders[0], ["ant", "bee", "cow"], 3)
    class_folders(tmp_path / folders[1], ["ant", "cow"], 1)
    everything = open_images(f"imagenet100:{tmp_path}")
    assert everything.splits == splits
    assert len(everything) == 11
    second = open_images(f"imagefolder:{tmp_path}", splits[1])
    assert second.class_names == ("ant", "bee", "cow")  # of all splits, so that labels mean the same
    assert second.labels.int().argmax(1).tolist() == [0, 2]
    with pytest.raises(DataError, match=f'no split "best", it has {", ".join(splits)}'):
        open_images(f"imagefolder:{tmp_path}", "best")


def test_classes_spread_over_several_folders_of_a_split(tmp_path):
    class_folders(tmp_path / "train.X1", ["ant"])
    class_folders(tmp_path / "train.X2", ["bee"])
    class_folders(tmp_path / "val.X", ["ant", "bee"])
    train = open_images(f"imagenet100:{tmp_path}", "train")
    assert train.class_names == ("ant", "bee")
    assert len(train) == 4


def test_a_class_may_be_called_train(tmp_path):
    class_folders(tmp_path, ["boat", "train"])
    images = open_images(tmp_path)
    assert images.class_names == ("boat", "train")
    assert images.splits == ()


# Bare paths


def test_bare_paths_are_recognised(tmp_path):
    write_voc_year(tmp_path / "voc" / "VOCdevkit" / "VOC2007", {"train": ["1"]}, {"1": [("dog", 0)]})
    write_coco(tmp_path / "coco")
    write_mnist(tmp_path / "mnist")
    write_mnist(tmp_path / "mnist2" / "raw", ending="")
    (tmp_path / "cifar" / "cifar-10-batches-bin").mkdir(parents=True)
    (tmp_path / "cifar" / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(np.zeros(3073, np.uint8).tobytes())
    class_folders(tmp_path / "classes", ["ant", "bee"])
    class_folders(tmp_path / "split" / "train", ["ant", "bee"])
    class_folders(tmp_path / "split" / "test", ["ant", "bee"])
    class_folders(tmp_path / "loose", ["ant", "bee"])
    save_image(tmp_path / "loose" / "c.jpg")
    class_folders(tmp_path / "single", ["holiday"])
    class_folders(tmp_path / "half", ["holiday", "others"])
    (tmp_path / "half" / "papers").mkdir()
    expected = {
        "voc": "voc", "voc/VOCdevkit": "voc", "voc/VOCdevkit/VOC2007": "voc", "coco": "coco", "mnist": "mnist",
        "mnist2": "mnist", "cifar": "cifar10", "classes": "imagefolder", "split": "imagefolder", "loose": "folder",
        "single": "folder", "half": "folder",
    }  # fmt: skip
    assert {path: detect_source(tmp_path / path) for path in expected} == expected
    assert all(len(open_images(tmp_path / path)) for path in expected)
