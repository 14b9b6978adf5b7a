"""How a noun may be spelled: case, spaces, hyphens, plurals. The rules of detachment are WordNet's own."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

# Of a noun's ending and what stands in its place in the singular, the first that leads to a known noun counts.
_DETACHED: Final = (
    ("s", ""),
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
)


def plain(word: str) -> str:
    """The word in small letters, with single spaces for spaces, hyphens and underscores.

    >>> plain("  Polar-Bear "), plain("dining_table"), plain("Café")
    ('polar bear', 'dining table', 'café')
    """
    return re.sub(r"[\s_\-‐‑–]+", " ", unicodedata.normalize("NFKC", word)).strip().casefold()


def joined(word: str) -> str:
    """The word without its spaces, so that `diningtable` is found as well.

    >>> joined("dining table")
    'diningtable'
    """
    return word.replace(" ", "")


def base_forms(word: str, irregular: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """What a plain word may be a form of, the word itself first; of several words the last is bent.

    >>> list(base_forms("mice", {"mice": ("mouse",)}))
    ['mice', 'mouse']
    >>> list(base_forms("polar bears", {}))
    ['polar bears', 'polar bear']
    """
    yield word
    before, space, last = word.rpartition(" ")
    for whole, start in ((word, ""), (last, before + space)):
        for base in irregular.get(whole, ()):
            yield start + base
        if not space:
            break
    for ending, singular in _DETACHED:
        if last.endswith(ending) and len(last) > len(ending):
            yield before + space + last.removesuffix(ending) + singular
