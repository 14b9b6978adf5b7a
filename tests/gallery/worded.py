"""A gallery whose images show what a test says, whatever is in their files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from galleries import naming_recipe, photos, tiny_model

from andornot import AndornotError
from andornot.concepts import QuantizedClasses, wordnet_nouns
from andornot.gallery import Gallery
from andornot.gallery.encoding import classes_to_bytes
from andornot.gallery.rows import CLASSES, sealed_column
from andornot.gallery.storage import Storage
from andornot.gallery.writing import open_writer


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


def show_nouns(gallery: Gallery, shown: Mapping[int, Mapping[str, float]]) -> None:
    """Store what images show, by id: nouns, and how much of each. The classes of other images become unknown."""
    with open_writer(Storage(gallery.address)) as writer:
        table = writer.table
        evidence = torch.zeros(len(table), 1000)
        for place, identity in enumerate(table.ids.tolist()):
            for noun, weight in shown.get(identity, {}).items():
                evidence[place, wordnet_nouns().look_up(noun).classes[0]] = weight
        known = np.isin(table.ids, list(shown))
        rows = table.take(table.ids, sorted(table.columns)).drop_columns([CLASSES])
        classes = sealed_column(table.ids, classes_to_bytes(QuantizedClasses.of(evidence)), known)
        writer.put(rows.append_column(CLASSES, classes), table.ids.tolist())
        writer.finish()
    gallery.refresh()


def worded_gallery(folder: Path, shown: Mapping[int, Mapping[str, float]]) -> Gallery:
    """Return a gallery of images `000.png` and so on, whose ids count from 1, which show what is said of their ids."""
    gallery = Gallery.create(folder / "g", tiny_model(recipe=naming_recipe()))
    gallery.add(photos(folder / "photos", 12))
    show_nouns(gallery, shown)
    return gallery
