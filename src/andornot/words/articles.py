"""A noun as it stands in a sentence. The page has the same rule in JavaScript (`sentence.js`)."""

import re
from typing import Final

# By its sound: an hourglass, a unicycle, a utensil.
_AN: Final = re.compile(r"(?:hour|(?!eu|uni|ute|u-)[aeiou])", re.IGNORECASE)
# More than one, most likely, or a mass: glasses, but not a bus, glass or mantis; clothing.
_WITHOUT: Final = re.compile(r"(?:[^isu]s|clothing|bedding|furniture|equipment|ware|wear|food|bread)$", re.IGNORECASE)


def with_article(noun: str) -> str:
    """The noun with *a* or *an*, or without where it is no single thing.

    >>> [with_article(noun) for noun in ("dog", "airplane", "uniform", "hourglass", "sunglasses", "chest of drawers")]
    ['a dog', 'an airplane', 'a uniform', 'an hourglass', 'sunglasses', 'a chest of drawers']
    """
    if _WITHOUT.search(noun.partition(" of ")[0]):
        return noun
    return f"{'an' if _AN.match(noun) else 'a'} {noun}"
