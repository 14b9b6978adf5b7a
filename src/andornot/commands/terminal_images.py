"""Images in the terminal: the protocols of kitty and iTerm2, and sixel graphics."""

import base64
import io
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from PIL import Image

_CHUNK: Final = 4096
_COLOURS: Final = 128
_SIXEL_TERMINALS: Final = ("foot", "mlterm", "contour", "yaft")


def image_writer(environment: Mapping[str, str] = os.environ) -> "Callable[[Image.Image], str] | None":
    """Return a function that encodes an image for this terminal; None if it does not support images."""
    if not sys.stdout.isatty():
        return None
    program, terminal = environment.get("TERM_PROGRAM", ""), environment.get("TERM", "")
    if "KITTY_WINDOW_ID" in environment or "kitty" in terminal or program == "ghostty":
        return as_kitty
    if program in ("iTerm.app", "WezTerm"):
        return as_iterm
    return as_sixel if terminal.startswith(_SIXEL_TERMINALS) else None


def as_kitty(image: "Image.Image") -> str:
    """Return an image in kitty's graphics protocol."""
    content = _png(image)
    chunks = [content[start : start + _CHUNK] for start in range(0, len(content), _CHUNK)]
    first = "a=T,f=100,"
    written = []
    for number, chunk in enumerate(chunks, 1):
        written.append(f"\x1b_G{first}m={int(number < len(chunks))};{chunk}\x1b\\")
        first = ""
    return "".join(written)


def as_iterm(image: "Image.Image") -> str:
    """Return an image in iTerm2's protocol."""
    return f"\x1b]1337;File=inline=1:{_png(image)}\x07"


def as_sixel(image: "Image.Image") -> str:
    """Return an image as sixels: bands of six rows, with one line of characters per colour."""
    import numpy as np

    indexed = image.convert("RGB").quantize(_COLOURS)
    palette = (np.array(indexed.getpalette(), int).reshape(-1, 3) * 100 + 127) // 255
    colours = "".join(f"#{number};2;{r};{g};{b}" for number, (r, g, b) in enumerate(palette.tolist()))
    pixels = np.asarray(indexed)
    bands = []
    for top in range(0, len(pixels), 6):
        band = pixels[top : top + 6]
        lines = []
        for colour in np.unique(band).tolist():
            sixels = ((band == colour) << np.arange(len(band))[:, None]).sum(0) + 63
            lines.append(f"#{colour}{bytes(sixels.astype(np.uint8)).decode('ascii')}")
        bands.append("$".join(lines))
    return f"\x1bPq{colours}{'-'.join(bands)}\x1b\\"


def _png(image: "Image.Image") -> str:
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode("ascii")
