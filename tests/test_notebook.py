"""What a notebook shows: well-formed HTML, with every name escaped, that loads nothing and stays small."""

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest
import torch
from PIL import Image

from andornot import Gallery, Representation
from andornot.evaluate.metrics.intervals import Interval, MeanStd
from andornot.evaluate.report.outcome import Outcome, Section, Table
from andornot.gallery import Hits
from andornot.gallery.hits import percent
from andornot.model import Model, new_network
from andornot.notebook import MOST_TILES
from andornot.ssl.recipe import make_recipe

HOSTILE = "!<img src=x onerror=alert(1)> & 'quotes\".png"


def parsed(html: str) -> Element:
    """The tree of what a value shows, after a look at what it would load or run."""
    root = ElementTree.fromstring(html)
    assert not {element.tag for element in root.iter()} & {"script", "link", "iframe", "object"}
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert name not in ("src", "href") or value.startswith("data:image/jpeg;base64,")
    assert not any("url(" in (style.text or "") or "@import" in (style.text or "") for style in root.iter("style"))
    return root


def text_of(root: Element) -> str:
    return " ".join(" ".join(root.itertext()).split())


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Gallery:
    """Noise, which no JPEG makes small, in more images than are shown; one with a name that is markup."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "photos").mkdir()
    random = np.random.default_rng(0)
    for name in (HOSTILE, *(f"{number:02}.png" for number in range(MOST_TILES + 3))):
        Image.fromarray(random.integers(0, 256, (300, 200, 3), dtype=np.uint8)).save(folder / "photos" / name)
    recipe = make_recipe({"backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 4, "num_values": 4})
    made = Gallery.create(folder / "gallery", Model.from_network(new_network(recipe, 3), recipe))
    made.add(folder / "photos")
    return made


def test_a_representation_shows_all_of_few_features_as_bars():
    root = parsed(Representation([[0.1, 0.9], [0.8, 0.2]])._repr_html_())
    assert "feature 0 0.90 feature 1 0.20" in text_of(root)
    assert [float(bar.attrib["height"]) for bar in root.iter("rect")] == [0.1, 0.9, 0.8, 0.2]


def test_of_many_features_and_images_the_strongest_and_the_first_are_shown():
    batch = Representation(torch.rand(2, 50, 100, 5).softmax(-1).requires_grad_())
    root = parsed(batch._repr_html_())
    assert "the 10 strongest features of the first 6 images" in text_of(root)
    assert len(list(root.iter("svg"))) == 60
    degrees = batch.degrees[0, 0]
    assert f"image 0 feature {degrees.argmax()} {degrees.max():.2f}" in text_of(root)


def test_hits_are_a_list_of_thumbnails_with_their_matches(gallery):
    hits = gallery.search("00.png", top=5)
    assert isinstance(hits, list)
    assert hits == list(hits)
    root = parsed(hits._repr_html_())
    assert len(list(root.iter("img"))) == 5
    assert all(f"#{hit.id}, {percent(hit.truth)}" in text_of(root) for hit in hits)
    assert [len(part) for part in gallery.search(["00.png", "01.png"], top=2)] == [2, 2]


def test_some_of_the_hits_show_themselves_too_and_no_hit_is_said(gallery):
    hits = gallery.search("00.png", top=5)
    assert isinstance(hits[1:3], Hits)
    assert len(list(parsed(hits[1:3]._repr_html_()).iter("img"))) == 2
    assert text_of(parsed(Hits()._repr_html_())).endswith("0 hits")


def test_a_gallery_shows_its_first_images_within_half_a_megabyte(gallery):
    html = gallery._repr_html_()
    root = parsed(html)
    assert len(html) < 500_000
    assert len(list(root.iter("img"))) == MOST_TILES
    assert f"{len(gallery)} images in" in text_of(root)
    assert f"the first {MOST_TILES} are shown" in text_of(root)


def test_names_that_are_markup_are_shown_as_they_are(gallery):
    root = parsed(gallery._repr_html_())
    assert HOSTILE in text_of(root)
    assert any(element.attrib.get("title", "").endswith(HOSTILE) for element in root.iter())


def test_a_file_that_is_gone_or_has_no_name_in_unicode_is_shown_as_a_tile(gallery):
    hit = gallery.search("00.png", top=1)[0]
    gone = Hits([type(hit)("/none/\udcff\x00.png", 0.5, 1)])
    assert text_of(parsed(gone._repr_html_())).endswith(r"the file is gone \udcff\x00.png #1, 0 %")


def test_an_outcome_shows_its_summary_and_its_tables():
    table = Table("How often", ["method", "right"], [[HOSTILE, MeanStd(0.5, 0.25)], ["b", Interval(0.5, 0.4, 0.6)]])
    outcome = Outcome("An experiment", "It works.", {}, {}, [Section("Figures", content=[table])])
    root = parsed(outcome._repr_html_())
    assert "An experiment It works. How often" in text_of(root)
    assert [cell.text for cell in root.iter("td")] == [HOSTILE, "0.500 ± 0.250", "b", "0.500 (0.400 to 0.600)"]
