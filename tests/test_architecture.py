"""Dependencies point one way, and importing the package stays light."""

import ast
import sys
from pathlib import Path

import pytest

import andornot

ROOT = Path(andornot.__file__).parent
# What each part may import from the others. `data` stands beside `logic`; nobody imports `commands`.
MAY_USE = {
    "version": set(),
    "errors": set(),
    "files": set(),
    "progress": set(),
    "similarity": set(),
    "probes": set(),
    "choices": set(),
    "notebook": {"errors"},
    "logic": {"choices", "errors", "notebook", "progress"},
    "data": {"errors", "files", "progress"},
    "ssl": {"errors", "files", "progress", "logic", "data"},
    "concepts": {"errors", "ssl"},
    "model_files": {"errors", "files", "ssl", "version"},
    "model": {"concepts", "model_files", "progress", "logic", "data", "ssl"},
    "pretraining": {"errors", "logic", "data", "ssl", "model", "probes"},
    "evaluate": {
        "errors",
        "files",
        "notebook",
        "progress",
        "logic",
        "data",
        "ssl",
        "model",
        "concepts",
        "probes",
        "similarity",
        "version",
    },
    "reproduce": {"errors", "files", "progress", "logic", "data", "ssl", "model", "pretraining", "evaluate"},
    "gallery": {
        "choices",
        "errors",
        "files",
        "notebook",
        "progress",
        "similarity",
        "logic",
        "data",
        "ssl",
        "model",
        "concepts",
        "version",
    },
    "web": {
        "choices",
        "similarity",
        "concepts",
        "errors",
        "files",
        "logic",
        "data",
        "ssl",
        "model",
        "evaluate",
        "gallery",
        "version",
    },
    "contact_sheet": {"data", "errors", "gallery"},
    "demo": {"contact_sheet", "errors", "logic", "data", "ssl", "model", "pretraining", "evaluate", "gallery"},
}
MAY_USE["commands"] = set(MAY_USE)
MAY_USE["__main__"] = {"commands"}


def parts_imported(file: Path) -> set[str]:
    """The parts of andornot that a module imports, anywhere in it."""
    package = ("andornot", *file.relative_to(ROOT).parent.parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = [*base, *(node.module or "").split(".")] if node.module else list(base)
            targets = [[*module, alias.name] for alias in node.names]
        else:
            continue
        found |= {target[1] for target in targets if target[0] == "andornot" and len(target) > 1}
    return found


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_imports_point_downward(file):
    part = file.relative_to(ROOT).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    assert part in MAY_USE, f"{part} is a new part: say in MAY_USE what it may use"
    assert parts_imported(file) <= MAY_USE[part] | {part}


# Of the rooms of `evaluate`: numbers know neither pages nor models, and pages no experiments.
ROOMS = {"metrics": {"metrics"}, "report": {"metrics", "report"}, "experiments": {"metrics", "report", "experiments"}}


@pytest.mark.parametrize("file", sorted((ROOT / "evaluate").rglob("*/*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_the_rooms_of_evaluate_stand_on_each_other(file):
    room = file.parent.name
    text = file.read_text()
    used = {other for other in ROOMS if f"from ..{other}" in text}
    assert used <= ROOMS[room]
    if room == "metrics":
        assert parts_imported(file) <= {"evaluate", "errors", "probes"}


def test_the_rule_sees_every_way_to_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "logic").mkdir()
    file = tmp_path / "logic" / "x.py"
    file.write_text(
        "import andornot.web.app\nfrom andornot import model\nfrom andornot.ssl import views\n"
        "from ..data import x\nfrom .. import gallery\nfrom . import formula\nimport torch\n"
    )
    assert parts_imported(file) == {"web", "model", "ssl", "data", "gallery", "logic"}


@pytest.mark.parametrize("file", sorted(ROOT.rglob("*.py")), ids=lambda f: str(f.relative_to(ROOT)))
def test_the_command_line_is_read_by_commands_alone(file):
    if file.parent.name != "commands":
        assert "argparse" not in file.read_text()


def test_every_public_name_is_there():
    assert all(hasattr(andornot, name) for name in andornot.__all__)


def modules_imported(file: Path) -> set[str]:
    """The modules of andornot that a module imports, as `gallery.writer`."""
    package = ("andornot", *file.relative_to(ROOT).parent.parts)
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            found |= {".".join([*filter(None, base), name.name][1:]) for name in node.names}
            found.add(".".join([*filter(None, base)][1:]))
    return found


READERS = (
    *("blocks", "condition_truth", "filters", "names", "options", "plan", "planner", "queries"),
    *("records", "shard", "storage", "table", "words"),
)
WRITERS = {f"gallery.{name}" for name in ("commits", "indexing", "repairing", "scanning", "writing")}


@pytest.mark.parametrize("file", [f"{name}.py" for name in READERS])
def test_reading_a_gallery_does_not_depend_on_writing_it(file):
    assert not modules_imported(ROOT / "gallery" / file) & WRITERS


@pytest.mark.parametrize("file", sorted((ROOT / "web").glob("*.py")), ids=lambda f: f.name)
def test_the_web_does_not_know_what_a_gallery_looks_like_on_the_disk(file):
    offered = {
        "errors",
        "exporting",
        "filters",
        "hits",
        "names",
        "near_duplicates",
        "options",
        "planner",
        "projections",
        "records",
        "words",
    }
    used = {name.split(".")[1] for name in modules_imported(file) if name.startswith("gallery.")}
    assert {name for name in used if (ROOT / "gallery" / f"{name}.py").exists()} <= offered
