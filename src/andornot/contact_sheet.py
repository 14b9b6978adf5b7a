"""Contact sheet of a search: the formula, its images, and the hits, best first, as one image."""

import os
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from .data import BrokenImageError, decode
from .errors import printable
from .gallery import GalleryError
from .gallery.hits import Hit, percent

_TILE: Final = 180
_GAP: Final = 16
_LINE: Final = 18
_COLUMNS: Final = 5
_LETTERS: Final = 24  # maximum length of a file name under a tile
_INK, _FAINT, _PAPER = "#22313f", "#8795a1", "#ffffff"

_WEAK: Final = "weak ones may be chance matches"

_FORMATS: Final = (".png", ".jpg", ".jpeg", ".webp")

# Colours of the boxes of a condition's terms.
_COLOURS: Final = ("#e4572e", "#2e86ab", "#76b041", "#f2b134", "#8e5fa8")


class SheetTile(NamedTuple):
    """A tile: the path of an image, the two lines under it, and boxes with their colours."""

    path: str
    name: str
    note: str = ""
    boxes: tuple[tuple[str, tuple[float, float, float, float]], ...] = ()


def draw_sheet(formula: str, queries: Mapping[str, str], hits: Sequence[Hit]) -> Image.Image:
    """Draw the sheet of a search; `queries` are the paths of the images in the formula, by name."""
    colours = _colours(hits)
    asked = [SheetTile(path, _short(name)) for name, path in queries.items()]
    found = [
        SheetTile(
            hit.path,
            _short(os.path.basename(hit.path)),  # noqa: PTH119
            f"{percent(hit.truth)}, {hit.strength}  #{hit.id}",
            tuple((colours[place.term], place.box) for place in hit.boxes),
        )
        for hit in hits
    ]
    title = textwrap.wrap(printable(formula), 100) or [""]
    width = _GAP + _COLUMNS * (_TILE + _GAP)
    heading = 2 * _GAP + len(title) * (_LINE + 6)
    legend = _LINE if colours else 0
    height = heading + _height(asked) + _LINE + _GAP + legend + _height(found) + _GAP
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, line in enumerate(title):
        draw.text((_GAP, _GAP + number * (_LINE + 6)), line, _INK, _font(18))
    top = _draw_tiles(sheet, asked, heading)
    draw.line((_GAP, top, width - _GAP, top), _FAINT)
    told = f"best first; {_WEAK}" if any(hit.is_weak for hit in hits) else "best first"
    draw.text((_GAP, top + 6), told if hits else "no hits", _FAINT, _font(13))
    left = _GAP
    for term, colour in colours.items():
        draw.text((left, top + 6 + _LINE), _short(term), colour, _font(13))
        left += _TILE + _GAP
    _draw_tiles(sheet, found, top + _LINE + _GAP + legend)
    return sheet


def check_format(path: Path) -> None:
    """Raise a GalleryError if the extension is not a supported image format."""
    if path.suffix.lower() not in _FORMATS:
        raise GalleryError(f"a sheet cannot be saved as {path}: the name must end in {', '.join(_FORMATS)}")


def _height(tiles: Sequence[SheetTile]) -> int:
    return -(-len(tiles) // _COLUMNS) * (_TILE + 2 * _LINE + _GAP)


def _draw_tiles(sheet: Image.Image, tiles: Sequence[SheetTile], top: int) -> int:
    """Draw the tiles from `top` downwards, and return where they end."""
    draw = ImageDraw.Draw(sheet)
    for number, (path, name, note, boxes) in enumerate(tiles):
        line, column = divmod(number, _COLUMNS)
        x, y = _GAP + column * (_TILE + _GAP), top + line * (_TILE + 2 * _LINE + _GAP)
        image = _thumbnail(path)
        left, above = x + (_TILE - image.width) // 2, y + (_TILE - image.height) // 2
        sheet.paste(image, (left, above))
        for inset, (colour, box) in enumerate(boxes):
            _draw_box(draw, (left, above), image.size, box, colour, inset)
        draw.text((x, y + _TILE + 2), name, _INK, _font(13))
        draw.text((x, y + _TILE + 2 + _LINE), note, _FAINT, _font(13))
    return top + _height(tiles)


def _draw_box(
    draw: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    size: tuple[int, int],
    box: tuple[float, float, float, float],
    colour: str,
    inset: int,
) -> None:
    """Draw a box in an image; the boxes of several terms are nested."""
    (x, y), (width, height), (left, top, right, bottom) = corner, size, box
    edge = 3 * inset
    corners = (x + left * width + edge, y + top * height + edge, x + right * width - edge, y + bottom * height - edge)
    if corners[0] < corners[2] and corners[1] < corners[3]:
        draw.rectangle(corners, outline=colour, width=2)


def _colours(hits: Sequence[Hit]) -> dict[str, str]:
    """Return a colour for each term that has a box in some hit."""
    terms = dict.fromkeys(place.term for hit in hits for place in hit.boxes)
    return {term: _COLOURS[number % len(_COLOURS)] for number, term in enumerate(terms)}


def _thumbnail(path: str) -> Image.Image:
    """Return the image scaled to a tile; a grey tile for a missing or broken file."""
    try:
        image = decode(path, size=_TILE)
    except BrokenImageError:
        return Image.new("RGB", (_TILE, _TILE), "#d5dade")
    scale = _TILE / max(image.size)
    size = tuple(max(1, round(side * scale)) for side in image.size)
    return image.resize((size[0], size[1]), Image.Resampling.BICUBIC)


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS // 2 - 1]}…{name[-_LETTERS // 2 :]}"


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return an installed font that covers most languages, or else Pillow's built-in one."""
    for file in ("DejaVuSans.ttf", "Arial Unicode.ttf", "arial.ttf"):
        with suppress(OSError):
            return ImageFont.truetype(file, size)
    return ImageFont.load_default(size)
