"""A command loads what it needs and no more: what is imported decides how soon it starts. Nothing is timed here."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import andornot
from andornot.data import open_images
from andornot.gallery import Gallery
from andornot.model import Model, new_network
from andornot.pretraining import pretrain
from andornot.ssl.recipe import load_recipe, make_recipe

# torch, numpy, Pillow, pydantic and PyYAML are what a search works with; these are not.
TOO_HEAVY = {
    "fastapi",
    "kornia",
    "lightning",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "pandas",
    "scipy",
    "sklearn",
    "sympy",
    "timm",
    "torch._dynamo",
    "torch._inductor",
    "torch.onnx",
    "torchvision",
    "uvicorn",
}


def loaded(code: str) -> set[str]:
    """The modules that the code loads, beside those of a bare interpreter."""
    whole = f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    return set(result.stderr.splitlines()[-1].split())


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command loads."""
    run = f"try: code = main({list(arguments)!r})\nexcept SystemExit as end: code = end.code"
    return loaded(f"from andornot.commands.main import main\n{run}\nassert not code, code")


def outside_the_standard_library(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        *([command, "--help"] for command in ("demo", "pretrain", "evaluate", "index", "search", "serve")),
    ],
    ids=" ".join,
)
def test_help_and_version_load_the_command_line_alone(arguments):
    modules = loaded_by(*arguments)
    assert {name.partition(".")[0] for name in outside_the_standard_library(modules)} == {"andornot"}
    assert not modules & {"asyncio", "multiprocessing", "sqlite3", "xml"}


def test_the_experiments_of_the_paper_are_listed_without_torch():
    modules = loaded_by("reproduce", "--help")
    assert "pydantic" in modules, "the numbers of a retrieval are the library's"
    assert not modules & {"torch", "numpy", "PIL", *TOO_HEAVY}


def test_importing_the_package_loads_nothing_and_a_name_what_it_needs():
    assert outside_the_standard_library(loaded("import andornot")) == {"andornot", "andornot.version"}
    assert "torch" not in loaded("import andornot as aon; aon.__version__, dir(aon)")
    algebra = loaded("from andornot import Representation")
    assert {"torch", "andornot.logic"} <= algebra
    assert not {"andornot.model", "andornot.gallery", "PIL"} & algebra


def test_the_public_names_are_those_of_the_parts():
    assert set(andornot.__all__) <= set(dir(andornot))
    assert andornot.Representation is andornot.logic.Representation
    assert andornot.Model is Model
    assert andornot.Gallery is Gallery
    assert andornot.open_images is open_images
    assert andornot.load_recipe is load_recipe
    assert andornot.pretrain is pretrain
    assert issubclass(andornot.FormulaError, andornot.AndornotError)
    assert not hasattr(andornot, "implication"), "what is rare stays in andornot.logic"
    with pytest.raises(AttributeError, match="module 'andornot' has no attribute 'Modell'"):
        _ = andornot.Modell


@pytest.fixture(scope="module")
def gallery(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("startup")
    (folder / "photos").mkdir()
    random = np.random.default_rng(0)
    for name in "abcd":
        Image.fromarray(random.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(folder / "photos" / f"{name}.png")
    recipe = make_recipe({"backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 4, "num_values": 4})
    Gallery.create(folder / "gallery", Model.from_network(new_network(recipe, 3), recipe)).add(folder / "photos")
    return folder


def test_a_search_loads_nothing_that_it_does_not_need(gallery):
    outside = gallery / "photos" / "e.png"
    Image.new("RGB", (32, 32)).save(outside)
    modules = loaded_by("search", f"(a.png | b.png) & ~c.png - {outside}", "--gallery", str(gallery / "gallery"))
    assert "torch" in modules
    # Lance's Arrow loads pandas where that is installed; no dependency of ours does that.
    assert not (TOO_HEAVY - {"pandas"}) & modules
