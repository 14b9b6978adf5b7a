"""The examples run as they are, and stay short."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: object) -> str:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_photos_are_searched():
    printed = run("search_my_photos.py")
    shared = printed.split("what the two share")[1].split("\n\n")[0]
    assert printed.startswith("120 images")
    assert shared.count("dog") >= 3


@pytest.mark.slow
def test_a_plain_loop_learns_something():
    precision = run("plain_pytorch_loop.py").split("precision@10: ")[-1].split()[0]
    assert float(precision) > 0.2, "by chance it is 0.1"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda example: example.name)
def test_an_example_fits_on_a_screen(example):
    assert len(example.read_text().splitlines()) < 60
