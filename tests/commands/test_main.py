"""`andornot …`: usage, help, version and exit codes, whatever the command."""

import os
import pkgutil
import subprocess
import sys

import pytest

import andornot
from andornot import commands
from andornot.commands.main import COMMANDS, main


def test_an_output_that_cannot_be_is_one_clear_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "-o", str(tmp_path / "file")]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"andornot: File exists: {tmp_path / 'file'}\n"
    assert captured.out == ""


@pytest.mark.parametrize(
    ("arguments", "program"),
    [(["dance"], "andornot"), (["demo", "--loud"], "andornot"), (["search"], "andornot search")],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments, program, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{program}: ")
    assert line.endswith(f"; see {program} --help")


def test_without_a_command_all_are_listed():
    result = subprocess.run([sys.executable, "-m", "andornot"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert all(f"    {command}" in result.stderr for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_with_an_example(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"andornot {command}" in capsys.readouterr().out.partition("example")[2]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_terminal_but_for_commands_to_copy(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        main([*command.split(), "--help"])
    told, _, _ = capsys.readouterr().out.partition("\nexample")
    assert [line for line in told.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("arguments", [["--help"], ["search", "--help"], ["--version"]], ids=" ".join)
def test_a_pipe_that_nobody_reads_is_no_error(arguments):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "andornot", *arguments]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (0, "")


def test_stopped_while_it_starts_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("andornot.commands.main.make_parser", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["search", "a.jpg", "--gallery", "g"]) == 130
    assert capsys.readouterr() == ("", "andornot: stopped\n")


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"andornot {andornot.__version__}\n"


def test_an_option_is_spelled_out_so_that_a_new_one_changes_no_old_command(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["search", "a.jpg", "--gall", "g"])
    assert "--gallery" in capsys.readouterr().err


def test_every_command_is_a_module_and_every_module_a_command():
    modules = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    assert modules - set(COMMANDS) == {"main", "options", "experiment", "measurements", "openmp", "terminal_images"}
    assert set(COMMANDS) <= modules
