import subprocess
import sys

import pytest

import andornot
from andornot.cli import main


def test_an_output_that_cannot_be_is_one_clear_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"andornot: File exists: {tmp_path / 'file'}\n"
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [[], ["dance"], ["demo", "--loud"]])
def test_wrong_usage_exits_with_2_and_no_traceback(arguments):
    result = subprocess.run([sys.executable, "-m", "andornot", *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "usage: andornot" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["demo", "pretrain"])
def test_every_command_has_a_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"andornot {command}" in capsys.readouterr().out.partition("example")[2]


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"andornot {andornot.__version__}\n"
