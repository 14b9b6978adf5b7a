"""What the docs say about the repository is so; their examples run as doctests beside this."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from andornot.gallery import Gallery
from andornot.model import Model, new_network
from andornot.ssl.recipe import make_recipe

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(set(ROOT.glob("*.md")) - {ROOT / "CHANGELOG.md"}), *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOK = ROOT / "docs" / "notebooks" / "search.ipynb"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_images_exist(page):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    missing = [t for t in targets if not t.startswith("http") and not (page.parent / t).exists()]
    assert not missing


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_to_one(page):
    found = re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", page.read_text())
    missing = [(file, anchor) for file, anchor in found if anchor not in anchors(page.parent / file if file else page)]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_can_be_read_in_an_editor(page):
    """Tables and code have the lines that they need."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    long = [line for line in prose.splitlines() if len(line) > 120 and not line.startswith(("|", "!["))]
    assert not long


def test_the_site_has_every_page():
    config = (ROOT / "mkdocs.yml").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert set(re.findall(r"- ([\w/-]+\.md)$", config, re.MULTILINE)) == pages


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "penguin" in (tmp_path / "notebooks" / "search" / "index.html").read_text()
    assert "andornot.gallery.Gallery.search" in (tmp_path / "reference" / "search" / "index.html").read_text()


def test_the_notebook_shows_hits_and_no_folder_of_its_author():
    text = NOTEBOOK.read_text()
    assert text.count("data:image/jpeg") >= 10
    assert not re.search(r"/(home|tmp|root|work|Users)/", text)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), made)
    assert "penguin" in made["gallery"].search("penguin and umbrella", top=1)[0].path


def test_the_paper_map_names_tests_that_exist():
    for file, name in re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", (ROOT / "docs" / "paper-map.md").read_text()):
        found = list((ROOT / "tests").rglob(file))
        assert found, file
        assert not name or f"def {name}(" in found[0].read_text(), name


def code(page: str, language: str) -> str:
    """All code of a page in a language, but for what has a prompt, which is run as a doctest."""
    text = (ROOT / page).read_text()
    return "\n".join(block for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if ">>>" not in block)


def draw_images(names: Iterable[str]) -> None:
    Path("photos").mkdir()
    for number, name in enumerate(names):
        Image.new("RGB", (32, 32), (30 * number, 90, 200 - 20 * number)).save(f"photos/{name}.jpg")


def tiny_gallery() -> None:
    """`photos/` in `g/`, as the commands of the docs make it, but in a moment."""
    recipe = make_recipe({"backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 4, "num_values": 4})
    Gallery.create("g", Model.from_network(new_network(recipe, 3), recipe)).add("photos")


def test_the_readmes_python_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw_images(("dog", "ball", "cat", "beach", "crowd", "other"))
    tiny_gallery()
    made: dict[str, Any] = {}
    exec(code("README.md", "python"), made)
    assert {Path(hit.path).name for hit in made["hits"]} == {"beach.jpg", "crowd.jpg", "other.jpg"}
    assert len(made["more_hits"]) == 6


def run_commands(text: str) -> None:
    """Runs the commands of a page, but for the server, which does not end."""
    commands = re.findall(r"^andornot (?!serve).*", text, re.MULTILINE)
    assert commands
    for command in commands:
        words = [sys.executable, "-m", *shlex.split(command)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_readmes_commands_run_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw_images(("beach", "crowd", "other", "one more"))
    run_commands(code("README.md", ""))
    assert Path("hits.jpg").exists()
    assert Path("demo", "quick").exists()


@pytest.mark.slow
def test_the_tutorials_commands_and_python_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    draw_images(("cow", "cow-2", "cow-3", "bus", "cow-bus", "other"))
    run_commands(code("docs/tutorial.md", "sh"))
    assert {file.stem for file in Path().glob("*.jpg")} == {"like", "both", "without", "word", "shared"}
    exec(code("docs/tutorial.md", "python"), {})
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.slow
def test_the_images_can_be_drawn_again(tmp_path):
    draw = runpy.run_path(str(ROOT / "docs" / "draw.py"))
    draw["main"].__globals__["IMAGES"] = tmp_path
    draw["main"]()
    assert {image.name for image in tmp_path.iterdir()} <= {p.name for p in (ROOT / "docs" / "images").iterdir()}
