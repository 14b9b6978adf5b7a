"""What the plain install does not bring is asked for in one line, and what it brings works without the rest."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from andornot.errors import EXTRAS

ROOT = Path(__file__).parent.parent
TRAINING = ["lightning", "matplotlib", "scipy"]


def run_without(packages: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as if these packages were not installed."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({packages!r})); "
        f"from andornot.commands.main import main; sys.exit(main({list(arguments)!r}))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (["demo", "-o", "{}/demo"], "lightning"),
        (["pretrain", "scenes:?count=4", "--recipe", "digits", "-o", "{}/model"], "lightning"),
        (["evaluate", "knn", "--model", "{}/none", "--data", "scenes", "-o", "{}/knn"], "matplotlib"),
        (["reproduce", "mnist-retrieval", "-o", "{}/out"], "scipy"),
        (["pretrain", "digits", "-o", "{}/model"], "mlxtend"),
        (["index", "{}", "--gallery", "{}/gallery", "--cluster", "local"], "ray"),
    ],
)
def test_a_missing_package_is_one_line_that_names_the_extra(arguments, package, tmp_path):
    result = run_without([package], *(argument.format(tmp_path) for argument in arguments))
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("andornot: ")
    assert line.endswith(f" needs {package}: pip install 'andornot[{EXTRAS[package]}]'")
    assert not list(tmp_path.iterdir())


def test_the_extras_of_the_messages_are_those_of_the_package():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(requirement.startswith(package) for requirement in extras[extra]), package


def test_a_model_is_calibrated_without_the_packages_of_training(tmp_path):
    result = run_without(
        [*EXTRAS, "pandas"],
        *("pretrain", "scenes:?count=8", "-o", str(tmp_path / "model"), "--set", "num_features=8"),
    )
    assert result.returncode == 0, result.stderr
