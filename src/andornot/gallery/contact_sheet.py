"""A sheet of a search: the formula, the pictures in it, and the hits from near to far, as one picture."""

import os
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from ..data import BrokenImageError, decode
from ..errors import printable
from .errors import GalleryError
from .searching import Hit

_TILE: Final = 180
_GAP: Final = 16
_LINE: Final = 18
_COLUMNS: Final = 5
_LETTERS: Final = 24  # of a file name under a tile
_INK, _FAINT, _PAPER = "#22313f", "#8795a1", "#ffffff"

_FORMATS: Final = (".png", ".jpg", ".jpeg", ".webp")

Tile = tuple[str, str, str]  # the path of a picture, and the two lines under it


def draw_sheet(formula: str, queries: Mapping[str, str], hits: Sequence[Hit], score: str) -> Image.Image:
    """The sheet of one search by a score; `queries` are the paths of the pictures in the formula, by name."""
    asked = [(path, _short(name), "") for name, path in queries.items()]
    found = [(hit.path, _short(os.path.basename(hit.path)), f"#{hit.id}  {hit.distance:.3f}") for hit in hits]  # noqa: PTH119
    title = textwrap.wrap(printable(formula), 100) or [""]
    width = _GAP + _COLUMNS * (_TILE + _GAP)
    heading = 2 * _GAP + len(title) * (_LINE + 6)
    height = heading + _height(asked) + _LINE + _GAP + _height(found) + _GAP
    sheet = Image.new("RGB", (width, height), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, line in enumerate(title):
        draw.text((_GAP, _GAP + number * (_LINE + 6)), line, _INK, _font(18))
    top = _draw_tiles(sheet, asked, heading)
    draw.line((_GAP, top, width - _GAP, top), _FAINT)
    draw.text((_GAP, top + 6), f"from near to far, by {score}" if hits else "nothing was found", _FAINT, _font(13))
    _draw_tiles(sheet, found, top + _LINE + _GAP)
    return sheet


def save_sheet(path: Path, formula: str, queries: Mapping[str, str], hits: Sequence[Hit], score: str) -> None:
    """Draws the sheet and saves it; the ending of the name says in which format."""
    draw_sheet(formula, queries, hits, score).save(path)


def check_format(path: Path) -> None:
    """A GalleryError for an ending that is of no picture format."""
    if path.suffix.lower() not in _FORMATS:
        raise GalleryError(f"a sheet cannot be saved as {path}: the name must end in {', '.join(_FORMATS)}")


def _height(tiles: Sequence[Tile]) -> int:
    return -(-len(tiles) // _COLUMNS) * (_TILE + 2 * _LINE + _GAP)


def _draw_tiles(sheet: Image.Image, tiles: Sequence[Tile], top: int) -> int:
    """Draws the tiles from that height on; where they end."""
    draw = ImageDraw.Draw(sheet)
    for number, (path, name, note) in enumerate(tiles):
        line, column = divmod(number, _COLUMNS)
        x, y = _GAP + column * (_TILE + _GAP), top + line * (_TILE + 2 * _LINE + _GAP)
        picture = _thumbnail(path)
        sheet.paste(picture, (x + (_TILE - picture.width) // 2, y + (_TILE - picture.height) // 2))
        draw.text((x, y + _TILE + 2), name, _INK, _font(13))
        draw.text((x, y + _TILE + 2 + _LINE), note, _FAINT, _font(13))
    return top + _height(tiles)


def _thumbnail(path: str) -> Image.Image:
    """The picture as large as a tile allows; a grey tile for a file that is gone."""
    try:
        picture = decode(path, size=_TILE)
    except BrokenImageError:
        return Image.new("RGB", (_TILE, _TILE), "#d5dade")
    scale = _TILE / max(picture.size)
    size = tuple(max(1, round(side * scale)) for side in picture.size)
    return picture.resize((size[0], size[1]), Image.Resampling.BICUBIC)


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS // 2 - 1]}…{name[-_LETTERS // 2 :]}"


def _font(size: int) -> ImageFont.FreeTypeFont:
    import matplotlib  # slow to load; its font has the letters of most languages, and Pillow's own has not

    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf", size)
