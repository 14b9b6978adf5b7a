"""What the docs say about the repository is so; their examples run as doctests beside this."""

import re
import runpy
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_the_pictures_can_be_drawn_again(tmp_path):
    draw = runpy.run_path(str(ROOT / "docs" / "draw.py"))
    draw["main"].__globals__["IMAGES"] = tmp_path
    draw["main"]()
    assert {picture.name for picture in tmp_path.iterdir()} <= {p.name for p in (ROOT / "docs" / "images").iterdir()}
