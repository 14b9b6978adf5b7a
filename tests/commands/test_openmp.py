"""A command tells OpenMP how to wait before torch is loaded, and leaves alone what the user has set."""

import os
import subprocess
import sys

import pytest

from andornot.commands import openmp
from andornot.commands.openmp import configure_openmp, cpu_quota

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (*WAITING, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
        monkeypatch.delenv(name)


def test_threads_sleep_while_they_wait():
    configure_openmp()
    assert [os.environ[name] for name in WAITING] == ["PASSIVE", "0", "0"]


def test_what_the_user_has_set_stays(monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", "30000")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    configure_openmp()
    assert (os.environ["GOMP_SPINCOUNT"], os.environ["OMP_NUM_THREADS"]) == ("30000", "7")


@pytest.mark.parametrize(
    ("text", "granted"),
    [("150000 100000\n", 2), ("20000 100000\n", 1), ("max 100000\n", None), ("900000 100000\n", None), ("", None)],
)
def test_the_quota_of_a_container_is_its_number_of_threads(tmp_path, monkeypatch, text, granted):
    (tmp_path / "cpu.max").write_text(text)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cpu_quota(tmp_path / "cpu.max") == granted
    monkeypatch.setattr(openmp, "_QUOTA", tmp_path / "cpu.max")
    configure_openmp()
    assert os.environ.get("OMP_NUM_THREADS") == (None if granted is None else str(granted))


def test_no_file_is_no_limit(tmp_path):
    assert cpu_quota(tmp_path / "cpu.max") is None


def test_a_command_says_so_before_it_loads_torch():
    code = (
        "import os, sys\n"
        "from andornot.commands.main import main\n"
        "assert 'torch' not in sys.modules\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and os.environ['GOMP_SPINCOUNT'] == '0'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
