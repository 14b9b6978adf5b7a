"""Named features: which words an image shows, how likely, and where."""

from .errors import ConceptError
from .heads import ConceptHeads, find_box, load_heads, write_heads
from .sizes import choose_size
from .vocabulary import OTHER_WORDS, find_name

__all__ = [
    "OTHER_WORDS",
    "ConceptError",
    "ConceptHeads",
    "choose_size",
    "find_box",
    "find_name",
    "load_heads",
    "write_heads",
]
