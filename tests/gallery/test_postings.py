"""Which pictures show a class: what is read class by class is what is kept picture by picture."""

from pathlib import Path

import numpy as np
import pytest
import torch

from andornot.gallery import postings as module
from andornot.gallery.layout import DERIVED
from andornot.gallery.postings import Postings, forget_postings
from andornot.words import KeptClasses, wordnet_nouns
from andornot.words.describing import describe_all, is_likely, which_are_likely

DOG = wordnet_nouns().look_up("dog").classes
PERSON = wordnet_nouns().look_up("person").classes


class Kept:
    """Classes of drawn pictures; those of some rows are missing. It counts what is read."""

    def __init__(self, rows: int, missing: tuple[int, ...] = (), seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.evidence = (4 * torch.randn(rows, 1000, generator=generator)).softmax(-1).sqrt()
        self.kept = KeptClasses.of(self.evidence)
        self.missing = set(missing)
        self.rows_read = 0

    def has(self, rows: np.ndarray) -> np.ndarray:
        return np.array([row not in self.missing for row in rows.tolist()], bool)

    def read(self, rows: np.ndarray) -> KeptClasses:
        self.rows_read += len(rows)
        weights = self.kept.weights[rows].clone()
        weights[torch.from_numpy(~self.has(rows))] = 255
        return KeptClasses(self.kept.classes[rows], weights)


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT", 64)
    monkeypatch.setattr(module, "_BLOCK", 16)


def obvious_support(kept: Kept, classes: tuple[int, ...], rows: int) -> np.ndarray:
    dense = kept.kept.evidence()[:rows, list(classes)].sum(1).clamp(max=1).numpy()
    dense[[row for row in kept.missing if row < rows]] = 0
    return np.asarray(dense)


def obvious_nouns(kept: Kept, used: np.ndarray) -> np.ndarray:
    there = used[kept.has(used)]
    return np.asarray(which_are_likely(kept.kept.evidence()[there].numpy()).sum(0))


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize("written", [False, True])
def test_support_is_that_of_what_is_kept_with_files_and_without(tmp_path: Path, rows: int, written: bool) -> None:
    kept = Kept(200, missing=(3, 70))
    if written:
        Postings(tmp_path, 1, rows, kept).extend()
    postings = Postings(tmp_path, 1, rows, kept)
    assert postings.is_complete == (written or rows == 0)
    for classes in (DOG, PERSON, tuple(range(1000))):
        np.testing.assert_allclose(postings.support(classes), obvious_support(kept, classes, rows), atol=1e-5)


def test_a_word_reads_no_picture_once_there_are_postings(tmp_path: Path) -> None:
    kept = Kept(200)
    Postings(tmp_path, 1, 200, kept).extend()
    kept.rows_read = 0
    Postings(tmp_path, 1, 200, kept).support(DOG)
    assert kept.rows_read == 0


def test_what_is_appended_is_known_before_and_after_the_files_have_grown(tmp_path: Path) -> None:
    kept = Kept(200)
    Postings(tmp_path, 1, 100, kept).extend()
    grown = Postings(tmp_path, 1, 200, kept)
    for _ in range(2):
        np.testing.assert_allclose(grown.support(DOG), obvious_support(kept, DOG, 200), atol=1e-5)
        np.testing.assert_array_equal(grown.nouns(np.arange(200)), obvious_nouns(kept, np.arange(200)))
        grown.extend()
    assert Postings(tmp_path, 1, 200, kept).is_complete


def test_a_reader_of_before_sees_its_own_rows_in_files_that_have_grown(tmp_path: Path) -> None:
    kept = Kept(200)
    Postings(tmp_path, 1, 60, kept).extend()
    Postings(tmp_path, 1, 200, kept).extend()
    before = Postings(tmp_path, 1, 40, kept)
    np.testing.assert_allclose(before.support(DOG), obvious_support(kept, DOG, 40), atol=1e-5)
    np.testing.assert_array_equal(before.nouns(np.arange(40)), obvious_nouns(kept, np.arange(40)))


def test_rows_that_gain_classes_later_are_taken_up(tmp_path: Path) -> None:
    kept = Kept(100, missing=(5, 90))
    Postings(tmp_path, 1, 100, kept).extend()
    kept.missing.clear()
    for _ in range(2):  # who gave them the classes may have been killed before the files were written
        postings = Postings(tmp_path, 1, 100, kept)
        np.testing.assert_allclose(postings.support(DOG), obvious_support(kept, DOG, 100), atol=1e-5)
        np.testing.assert_array_equal(postings.nouns(np.arange(100)), obvious_nouns(kept, np.arange(100)))
        postings.extend()
    kept.rows_read = 0
    postings.support(DOG)
    assert kept.rows_read == 0


def test_pictures_that_were_removed_are_not_counted(tmp_path: Path) -> None:
    kept, used = Kept(150, missing=(7,)), np.array([0, 7, 9, 80, 149])
    Postings(tmp_path, 1, 150, kept).extend()
    np.testing.assert_array_equal(Postings(tmp_path, 1, 150, kept).nouns(used), obvious_nouns(kept, used))


@pytest.mark.parametrize("what", ["gone", "cut off", "empty", "flipped head", "flipped tables", "flipped postings"])
def test_a_damaged_file_changes_no_answer_and_is_written_again(tmp_path: Path, what: str) -> None:
    kept = Kept(150)
    Postings(tmp_path, 1, 150, kept).extend()
    file = sorted((tmp_path / DERIVED).glob("words-*.bin"))[1]
    content = bytearray(file.read_bytes())
    match what:
        case "gone":
            file.unlink()
        case "cut off":
            file.write_bytes(content[:-100])
        case "empty":
            file.write_bytes(b"")
        case _:
            place = {"flipped head": 9, "flipped tables": 10_000, "flipped postings": len(content) - 50}[what]
            content[place] ^= 1
            file.write_bytes(content)
    postings = Postings(tmp_path, 1, 150, kept)
    everything = tuple(range(1000))
    np.testing.assert_allclose(postings.support(everything), obvious_support(kept, everything, 150), atol=1e-5)
    postings.extend()
    kept.rows_read = 0
    np.testing.assert_allclose(
        Postings(tmp_path, 1, 150, kept).support(everything), obvious_support(kept, everything, 150), atol=1e-5
    )
    assert kept.rows_read == 0


def test_files_of_rows_that_are_no_more_are_removed(tmp_path: Path) -> None:
    kept = Kept(150)
    Postings(tmp_path, 1, 150, kept).extend()
    Postings(tmp_path, 4, 50, kept).extend()
    assert [file.name for file in (tmp_path / DERIVED).iterdir()] == ["words-0004-00000.bin"]
    forget_postings(tmp_path)
    assert not list((tmp_path / DERIVED).iterdir())


def test_one_noun_is_likely_where_it_is_among_all() -> None:
    weights = np.concatenate([Kept(60).evidence.numpy(), np.zeros((1, 1000), np.float32)])
    every = which_are_likely(weights)
    assert every.any()
    for number, synset in enumerate(wordnet_nouns().synsets):
        np.testing.assert_array_equal(is_likely(weights, synset), every[:, number])


def test_a_noun_counts_where_describing_may_say_it() -> None:
    weights = Kept(40).evidence.numpy()
    likely = which_are_likely(weights)
    synsets = wordnet_nouns().synsets
    for row, shown in zip(likely, describe_all(weights * weights), strict=True):
        named = {synset for synset, counts in zip(synsets, row.tolist(), strict=True) if counts}
        assert named >= {noun.synset for noun in shown}
