"""HTML for notebooks: bars, images and tables, small and self-contained.

All text is escaped. Callers pass plain numbers, names and images.
"""

import base64
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .errors import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from PIL.Image import Image

# With these limits, even incompressible images stay below half a megabyte in total.
MOST_TILES: Final = 24
TILE: Final = 128
_QUALITY: Final = 80

_PAGE: Final = """
<div class="andornot">
<style>
.andornot { display: flex; flex-wrap: wrap; gap: 1em; font-size: 90%; line-height: 1.3 }
.andornot > p { flex-basis: 100%; margin: 0 }
.andornot figure { margin: 0; max-width: 100% }
.andornot .tile { width: 128px; overflow-wrap: anywhere }
.andornot .tile img, .andornot .gone { display: block; width: 128px; height: 128px; object-fit: contain }
.andornot .gone { background: #8886 }
.andornot svg { width: 64px; height: 16px; fill: #2b7bba; background: #8882 }
.andornot td, .andornot th { text-align: left; vertical-align: middle }
.andornot td.number { text-align: right }
</style>
<p><b>{{ title }}</b>{% if note %} {{ note }}{% endif %}</p>
{% block content %}{% endblock %}
</div>
"""

_BARS: Final = """
{% extends "page" %}
{% block content %}
{% for heading, bars in groups %}
<figure>
{% if heading %}<figcaption>{{ heading }}</figcaption>{% endif %}
<table>
{% for bar in bars %}
<tr><th scope="row">{{ bar.name }}</th><td class="number">{{ "%.2f" | format(bar.degree) }}</td><td>
<svg viewBox="0 0 {{ bar.probs | length }} 1" preserveAspectRatio="none" role="img" aria-label="{{ bar.described }}">
{% for share in bar.probs %}
<rect x="{{ loop.index0 + 0.1 }}" width="0.8" y="{{ (1 - share) | round(3) }}" height="{{ share | round(3) }}" />
{% endfor %}
</svg></td></tr>
{% endfor %}
</table>
</figure>
{% endfor %}
{% endblock %}
"""

_TILES: Final = """
{% extends "page" %}
{% block content %}
{% for tile in tiles %}
<figure class="tile" title="{{ tile.path }}">
{% if tile.image %}<img src="{{ tile.source() }}" alt="" />{% else %}<div class="gone">the file is gone</div>{% endif %}
<figcaption>{{ tile.name }}{% if tile.note %}<br />{{ tile.note }}{% endif %}</figcaption>
</figure>
{% endfor %}
{% endblock %}
"""

_TABLES: Final = """
{% extends "page" %}
{% block content %}
{% for caption, columns, rows in tables %}
<figure>
<figcaption>{{ caption }}</figcaption>
<table>
<thead><tr>{% for column in columns %}<th scope="col">{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
</figure>
{% endfor %}
{% endblock %}
"""


class Bar(NamedTuple):
    """A feature: its name, its degree, and the probabilities of its truth values from 0 to 1."""

    name: str
    degree: float
    probs: Sequence[float]

    @property
    def described(self) -> str:
        """The probabilities as text, for screen readers."""
        return "probabilities " + ", ".join(f"{share:.2f}" for share in self.probs)


class Tile(NamedTuple):
    """An image with its name and a line under it; the image is None if its file is missing."""

    image: "Image | None"
    path: str
    name: str
    note: str = ""

    def source(self) -> str:
        """Return the image as a small data URL."""
        if self.image is None:
            raise ValueError(f"there is no image of {self.path}")
        small, content = self.image.convert("RGB"), BytesIO()
        small.thumbnail((TILE, TILE))
        small.save(content, "JPEG", quality=_QUALITY)
        return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"


def bars(title: str, groups: Sequence[tuple[str, Sequence[Bar]]], note: str = "") -> str:
    """Draw features with their degrees and distributions, in groups with headings."""
    return _render("bars", title=title, groups=groups, note=note)


def tiles(title: str, tiles: Sequence[Tile], note: str = "") -> str:
    """Show images side by side, at most `MOST_TILES`."""
    return _render("tiles", title=title, tiles=tiles[:MOST_TILES], note=note)


def tables(title: str, tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]], note: str = "") -> str:
    """Show tables, each given by a caption, columns and rows."""
    return _render("tables", title=title, tables=tables, note=note)


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> "Environment":
    from jinja2 import DictLoader, Environment, StrictUndefined  # slow to import, and only needed in notebooks

    templates = {"page": _PAGE, "bars": _BARS, "tiles": _TILES, "tables": _TABLES}
    return Environment(
        loader=DictLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
    )


def _shown(value: Any) -> Any:
    """Replace characters of file names that HTML does not allow."""
    return printable(value) if type(value) is str else value
