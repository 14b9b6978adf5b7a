"""Images in a terminal, by the protocols of kitty, iTerm2 and sixel."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from andornot.commands.terminal_images import as_iterm, as_kitty, as_sixel, image_writer

PIXELS = np.random.default_rng(0).choice([0, 255], (14, 9, 3)).astype(np.uint8)
IMAGE = Image.fromarray(PIXELS)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"KITTY_WINDOW_ID": "1"}, as_kitty),
        ({"TERM": "xterm-kitty"}, as_kitty),
        ({"TERM_PROGRAM": "iTerm.app"}, as_iterm),
        ({"TERM": "foot-extra"}, as_sixel),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
    ],
)
def test_the_environment_says_what_a_terminal_shows(environment, expected, monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert image_writer(environment) is None, "a pipe shows nothing"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert image_writer(environment) is expected


@pytest.mark.parametrize("size", [14, 200])
def test_kitty_and_iterm_get_the_png(size):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (size, size, 3), np.uint8))
    chunks = re.findall(r"\x1b_G(?:a=T,f=100,)?m=([01]);([^\x1b]*)\x1b\\", as_kitty(image))
    assert [more for more, _ in chunks] == ["1"] * (len(chunks) - 1) + ["0"]
    assert all(len(chunk) <= 4096 for _, chunk in chunks)
    (of_iterm,) = re.findall(r"\x1b]1337;File=inline=1:(.*)\x07", as_iterm(image))
    for content in ("".join(chunk for _, chunk in chunks), of_iterm):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))), np.asarray(image))


def test_sixels_are_the_pixels():
    body = as_sixel(IMAGE).removeprefix("\x1bPq").removesuffix("\x1b\\")
    palette = {int(n): tuple(map(int, rgb)) for n, *rgb in re.findall(r"#(\d+);2;(\d+);(\d+);(\d+)", body)}
    drawn = np.zeros_like(PIXELS)
    for band, text in enumerate(re.sub(r"#\d+;2;\d+;\d+;\d+", "", body).split("-")):
        for colour, line in (re.match(r"#(\d+)(.*)", part, re.DOTALL).groups() for part in text.split("$")):
            for x, character in enumerate(line):
                for row in range(6):
                    if (ord(character) - 63) >> row & 1:
                        drawn[6 * band + row, x] = [round(value * 2.55) for value in palette[int(colour)]]
    assert np.array_equal(drawn, PIXELS)
