"""An extension of griffe, which reads the docstrings for the site: examples with `>>>` become blocks of code."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class DoctestFences(griffe.Extension):
    """Put fences around the examples of all docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"\n```pycon\n\g<0>\n```", obj.docstring.value)
