"""The demo, as `make demo` runs it: minutes of training on real digits, and what it must be good for."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from andornot import demo
from andornot.commands.main import main
from andornot.data import open_images, scenes
from andornot.evaluate.experiments.config import RetrievalConfig
from andornot.gallery import Gallery
from andornot.model import Model, new_network
from andornot.ssl.recipe import make_recipe

SHEETS = {f"gallery-{name}.png" for name in ("both", "without", "shared", "containment", "minus", "words")}
IMAGES = {"algebra.png", "search-1-0.png", "search-7-6.png", "search-4-3.png", *SHEETS}
FOLDERS = {"model", "retrieval", "scenes", "gallery"}


@pytest.fixture
def few_scenes(monkeypatch):
    monkeypatch.setattr(demo, "SCENES", "scenes:?count=24&classes=dog+car")


def printed_command(output: str, command: str) -> list[str]:
    """The words of the line that has the command in it, as a shell takes them."""
    (line,) = (line for line in output.splitlines() if f" {command} " in line and "--gallery" in line)
    return shlex.split(line)


def test_the_example_of_the_readme_is_printed_and_drawn(tmp_path, capsys):
    demo.show_example(tmp_path)
    assert "a | b" in capsys.readouterr().out
    assert (tmp_path / "algebra.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.usefixtures("few_scenes")
def test_a_model_that_is_there_is_used_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "_PROTOCOL", RetrievalConfig(images_per_class=2))
    recipe = make_recipe({"backbone": "conv5", "num_features": 8, "num_values": 4})
    Model.from_network(new_network(recipe, channels=1), recipe).save(tmp_path / "model")
    assert main(["demo", "-o", str(tmp_path)]) == 0
    assert "is used again" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == FOLDERS | IMAGES


def test_the_quick_demo_searches_by_words_and_examples(tmp_path, capsys):
    assert main(["demo", "--quick", "-o", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    hits = {
        block.splitlines()[0].strip(): re.findall(r" %  (\S+)", block)
        for block in output.split("\n\n")
        if " %  " in block
    }
    assert [len(names) for names in hits.values()] == [5] * 4
    assert all("penguin" in name and "umbrella" in name for name in hits["penguin and umbrella"])
    assert all("tractor" in name and "airplane" not in name for name in hits["tractor and not airplane"])
    assert all("balloon" in name or "rabbit" in name for name in hits["balloon or rabbit"])
    assert scenes.ATTRIBUTION in output
    assert main(printed_command(output, "search")[1:]) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"quick", "quick-scenes"}


@pytest.mark.usefixtures("few_scenes")
def test_the_gallery_stays_and_the_printed_command_searches_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo.show_gallery(Path("my demo"))
    output = capsys.readouterr().out
    assert scenes.ATTRIBUTION in output
    assert {file.name for file in Path("my demo").iterdir()} == {"scenes", "gallery", *SHEETS}
    _, *serving = printed_command(output, "serve")
    monkeypatch.setattr("andornot.commands.serve.run", lambda options: print(Gallery.open(options.gallery)))
    assert main(serving) == 0
    assert capsys.readouterr().out.startswith("Gallery(24 images")
    program, *arguments = printed_command(output, "search")
    assert shutil.which(program) is not None
    assert main(arguments) == 0
    assert sum(" %  " in line for line in capsys.readouterr().out.splitlines()) == 10


@pytest.mark.usefixtures("few_scenes")
def test_a_second_run_draws_and_encodes_nothing(tmp_path, monkeypatch, capsys):
    demo.show_gallery(tmp_path)
    first = capsys.readouterr().out
    monkeypatch.setattr(Model, "activations", None)
    monkeypatch.setattr(scenes, "paint_ground", None)
    demo.show_gallery(tmp_path)
    assert capsys.readouterr().out == first
    assert len(Gallery.open(tmp_path / "gallery")) == 24


@pytest.mark.usefixtures("few_scenes")
def test_scenes_that_were_not_all_drawn_are_drawn_again(tmp_path, monkeypatch):
    images = open_images(demo.SCENES)
    with monkeypatch.context() as patched:
        patched.setattr(demo, "_scene_file", lambda _, index: f"{index}.jpg" if index < 5 else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            demo.write_scenes(images, tmp_path / "scenes")
    assert not (tmp_path / "scenes").exists()
    demo.write_scenes(images, tmp_path / "scenes")
    assert [file.name for file in tmp_path.iterdir()] == ["scenes"]
    assert len(list((tmp_path / "scenes").iterdir())) == 24


def test_the_images_of_the_formulas_are_the_first_that_show_just_the_things():
    images = open_images(demo.SCENES)
    for things in ({"dog"}, {"car"}, {"dog", "car"}):
        name = demo.scene_files(images, things)[0]
        shown = [
            {images.class_names[number] for number, present in enumerate(row) if present}
            for row in images.labels.tolist()
        ]
        assert name == f"{'-'.join(sorted(things, reverse=True))}-{shown.index(things):04}.jpg"


def test_the_printed_program_is_found_from_another_folder(tmp_path, monkeypatch):
    program = tmp_path / "my env" / "bin" / "andornot"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    assert shlex.split(demo._program()) == ["my env/bin/andornot"]
    monkeypatch.setenv("PATH", str(program.parent))
    assert demo._program() == "andornot"
    program.unlink()
    assert shlex.split(demo._program()) == [str(program.with_name("python")), "-m", "andornot"]


@pytest.mark.slow
def test_after_the_minutes_of_the_demo_neighbours_agree_with_labels_never_seen(tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    accuracy = {name: float(value) for name, value in re.findall(r"(features|representation) +(0\.\d+)", output)}
    assert accuracy["features"] >= 0.90
    assert accuracy["representation"] >= 0.85
    assert {file.name for file in (tmp_path / "retrieval").iterdir()} == {"export", "report.html", "result.json"}
    assert {file.name for file in tmp_path.iterdir()} == FOLDERS | IMAGES
