"""A gallery whose pictures show what a test says, without a classifier."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from galleries import photos, tiny_model

from andornot import AndornotError
from andornot.gallery import Gallery
from andornot.ssl.backbones import Backbone
from andornot.words import KeptClasses, wordnet_nouns


@contextmanager
def one_clear_line() -> Iterator[None]:
    """What is done in it succeeds, or fails with an error of one line that is not endless."""
    error: AndornotError | None = None
    try:
        yield
    except AndornotError as caught:
        error = caught
    message = getattr(error, "message", str(error or ""))
    assert "\n" not in message
    assert len(message) < 500


class Seen:
    """Stands for what is kept of the classes: by row, the nouns that a picture shows, and how much of each."""

    def __init__(self, shown: Mapping[int, Mapping[str, float]]) -> None:
        self.shown = dict(shown)
        self.rows_read = 0

    def has(self, rows: np.ndarray) -> np.ndarray:
        return np.array([row in self.shown for row in rows.tolist()], bool)

    def read(self, rows: np.ndarray) -> KeptClasses:
        self.rows_read += len(rows)
        evidence = torch.zeros(len(rows), 1000)
        for place, row in enumerate(rows.tolist()):
            for noun, weight in self.shown.get(row, {}).items():
                evidence[place, wordnet_nouns().look_up(noun).classes[0]] = weight
        return KeptClasses.of(evidence)


def let_classes_be_named(monkeypatch: pytest.MonkeyPatch, seen: Seen | None) -> None:
    """From here on every backbone has ImageNet's classes, and galleries keep what was `seen`."""
    monkeypatch.setattr(Backbone, "classes", "imagenet-1k", raising=False)
    monkeypatch.setattr(Gallery, "_kept_classes", property(lambda _: seen))


def worded_gallery(folder: Path, monkeypatch: pytest.MonkeyPatch, shown: Mapping[int, Mapping[str, float]]) -> Gallery:
    """Pictures `000.png` and so on, which show what is said of their rows."""
    gallery = Gallery.create(folder / "g", tiny_model())
    gallery.add(photos(folder / "photos", 12))
    let_classes_be_named(monkeypatch, Seen(shown))
    gallery.refresh()
    return gallery
