"""What the docs say about the repository is so; their examples run as doctests beside this."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from andornot.gallery import Gallery
from andornot.model import Model, new_network
from andornot.ssl.recipe import make_recipe

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert not missing


def test_the_paper_map_names_tests_that_exist():
    for file, name in re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", (ROOT / "docs" / "paper-map.md").read_text()):
        found = list((ROOT / "tests").rglob(file))
        assert found, file
        assert not name or f"def {name}(" in found[0].read_text(), name


def test_the_readmes_python_runs_as_printed(tmp_path, monkeypatch):
    """On a gallery of `photos/` in `g/`, as its commands make it; what has a prompt is run as a doctest."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (script,) = (block for block in blocks if ">>>" not in block)
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for number, name in enumerate(("dog", "ball", "cat", "beach", "crowd", "other")):
        Image.new("RGB", (32, 32), (40 * number, 90, 200 - 30 * number)).save(f"photos/{name}.jpg")
    recipe = make_recipe({"backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 4, "num_values": 4})
    Gallery.create("g", Model.from_network(new_network(recipe, 3), recipe)).add("photos")
    made: dict[str, Any] = {}
    exec(script, made)
    assert {Path(hit.path).name for hit in made["hits"]} == {"beach.jpg", "crowd.jpg", "other.jpg"}
    assert sorted(made["nearest"].tolist()) == list(range(6))


@pytest.mark.slow
def test_the_pictures_can_be_drawn_again(tmp_path):
    draw = runpy.run_path(str(ROOT / "docs" / "draw.py"))
    draw["main"].__globals__["IMAGES"] = tmp_path
    draw["main"]()
    assert {picture.name for picture in tmp_path.iterdir()} <= {p.name for p in (ROOT / "docs" / "images").iterdir()}
