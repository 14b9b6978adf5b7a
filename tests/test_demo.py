"""The demo, as `make demo` runs it: minutes of training on real digits, and what it must be good for."""

import re

import pytest

from andornot import demo
from andornot.cli import main
from andornot.model import Model, new_network
from andornot.ssl.recipe import make_recipe

PICTURES = {"algebra.png", "search-1-0.png", "search-7-6.png", "search-4-3.png"}


def test_the_example_of_the_readme_is_printed_and_drawn(tmp_path, capsys):
    demo.show_example(tmp_path)
    assert "a | b" in capsys.readouterr().out
    assert (tmp_path / "algebra.png").read_bytes().startswith(b"\x89PNG")


def test_a_model_that_is_there_is_used_again(tmp_path, capsys):
    recipe = make_recipe({"backbone": "conv5", "num_features": 8, "num_values": 4})
    Model.from_network(new_network(recipe, channels=1), recipe).save(tmp_path / "model")
    assert main(["demo", "-o", str(tmp_path)]) == 0
    assert "is used again" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {"model", "retrieval", *PICTURES}


@pytest.mark.slow
def test_after_the_minutes_of_the_demo_neighbours_agree_with_labels_never_seen(tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    accuracy = {name: float(value) for name, value in re.findall(r"(features|representation) +(0\.\d+)", output)}
    assert accuracy["features"] >= 0.90
    assert accuracy["representation"] >= 0.85
    assert {file.name for file in (tmp_path / "retrieval").iterdir()} == {"report.html", "result.json"}
    assert {file.name for file in tmp_path.iterdir()} == {"model", "retrieval", *PICTURES}
