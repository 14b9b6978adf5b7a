"""`evaluate words` compares words with example images by the maths of galleries, without one."""

import pytest
from galleries import photos, tiny_model

from andornot import Gallery
from andornot.evaluate.experiments.operators import GalleryTruths


@pytest.fixture
def gallery(tmp_path):
    gallery = Gallery.create(tmp_path / "g", tiny_model())
    gallery.add(photos(tmp_path / "photos", 120))
    return gallery


@pytest.mark.parametrize("rows", [[7], [3, 40, 77]])
def test_examples_are_as_true_as_in_a_gallery(gallery, rows):
    ids = list(gallery.ids)
    place_of = {identity: place for place, identity in enumerate(ids)}
    truths = GalleryTruths(gallery.represent(ids).degrees.half()).of_examples(rows)
    hits = gallery.search(f"like({', '.join(str(ids[row]) for row in rows)})", top=10, score="centered")
    assert [hit.truth for hit in hits] == pytest.approx([float(truths[place_of[hit.id]]) for hit in hits], abs=0.02)


def test_an_image_in_a_condition_of_several_terms_speaks_with_its_neighbours(gallery):
    ids = list(gallery.ids)
    place_of = {identity: place for place, identity in enumerate(ids)}
    truths = GalleryTruths(gallery.represent(ids).degrees.half())
    both = truths.of_examples([7], expanded=True) * truths.of_examples([30], expanded=True)
    hits = gallery.search(f"{ids[7]} and {ids[30]}", top=10)
    assert [1 - hit.distance for hit in hits] == pytest.approx(
        [float(both[place_of[hit.id]]) for hit in hits], abs=0.03
    )
