"""What is opened is a file: nobody waits for a pipe, or reads a device for ever."""

import os
from pathlib import Path

import pytest

from andornot.files import open_regular


def test_a_file_is_opened_through_a_link_too(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"content")
    (tmp_path / "link").symlink_to(file)
    for path in (file, str(file), tmp_path / "link"):
        with open_regular(path) as opened:
            assert opened.read() == b"content"


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
    with pytest.raises(IsADirectoryError, match="a folder"):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


def test_a_pipe_that_takes_the_place_of_a_file_meanwhile_is_refused_too(tmp_path, monkeypatch):
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"content")
    os.mkfifo(pipe)
    plain = os.stat

    def stat_and_replace(path: Path) -> os.stat_result:
        status = plain(path)
        pipe.replace(path)
        return status

    monkeypatch.setattr(os, "stat", stat_and_replace)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(file)
