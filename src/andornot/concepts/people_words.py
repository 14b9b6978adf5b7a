"""Synonyms of named features: *sofa* is `couch`, *television* is `tv`."""

from collections.abc import Collection
from functools import cache
from typing import Final

# Synonyms of each named feature, in the singular, except for words that are named features themselves.
OTHER_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "airplane": ("plane", "aeroplane", "aircraft", "airliner", "jet"),
    "backpack": ("rucksack", "knapsack"),
    "baseball glove": ("baseball mitt", "mitt"),
    "bathroom": ("restroom", "washroom"),
    "beach": ("shore", "seashore", "seaside"),
    "bear": ("grizzly", "polar bear", "brown bear"),
    "bicycle": ("bike", "pushbike"),
    "boat": ("ship", "sailboat", "rowboat", "canoe", "kayak", "yacht", "ferry"),
    "bus": ("coach", "double-decker"),
    "cake": ("birthday cake", "cupcake"),
    "car": ("automobile", "auto", "sedan", "suv", "taxi", "cab"),
    "cat": ("kitten", "kitty"),
    "cell phone": ("cellphone", "phone", "mobile phone", "mobile", "smartphone", "telephone"),
    "chair": ("armchair", "stool"),
    "child": ("kid", "toddler"),
    "city": ("town", "downtown"),
    "clock": ("watch", "alarm clock"),
    "computer": ("pc",),
    "couch": ("sofa", "settee", "loveseat"),
    "cow": ("cattle", "bull", "calf", "ox"),
    "cup": ("mug", "coffee cup", "teacup"),
    "dining table": ("table", "diningtable", "kitchen table", "dinner table"),
    "dog": ("puppy", "hound", "pup"),
    "donut": ("doughnut",),
    "fire hydrant": ("hydrant",),
    "flower": ("blossom", "bouquet"),
    "flying": ("in flight",),
    "food": ("meal", "dish"),
    "frisbee": ("flying disc",),
    "grass": ("lawn", "meadow"),
    "hair drier": ("hair dryer", "hairdryer", "blow dryer"),
    "handbag": ("purse", "pocketbook"),
    "horse": ("pony", "foal", "stallion", "mare"),
    "hot dog": ("hotdog", "frankfurter"),
    "laptop": ("notebook computer",),
    "living room": ("lounge", "sitting room"),
    "man": ("guy", "gentleman"),
    "microwave": ("microwave oven",),
    "motorcycle": ("motorbike", "scooter", "moped"),
    "mouse": ("computer mouse",),
    "ocean": ("sea",),
    "oven": ("stove", "cooker"),
    "people": ("group of people",),
    "person": ("human", "somebody", "someone", "human being"),
    "potted plant": ("houseplant", "pot plant", "pottedplant"),
    "railroad tracks": ("railway", "train tracks", "rails"),
    "refrigerator": ("fridge", "freezer"),
    "remote": ("remote control",),
    "sandwich": ("burger", "hamburger"),
    "sheep": ("lamb", "ewe", "ram"),
    "sink": ("washbasin", "basin"),
    "skiing": ("skier",),
    "skis": ("ski",),
    "snow": ("winter",),
    "sports ball": ("ball", "soccer ball", "football", "tennis ball", "baseball ball", "basketball"),
    "street": ("road", "highway"),
    "suitcase": ("luggage", "trunk", "baggage"),
    "surfing": ("surfer",),
    "teddy bear": ("teddy", "stuffed animal", "plush toy"),
    "tennis racket": ("tennis racquet", "racket", "racquet"),
    "tie": ("necktie",),
    "toilet": ("wc", "lavatory", "loo"),
    "traffic light": ("stoplight", "traffic signal"),
    "train": ("locomotive", "tram", "subway train"),
    "truck": ("lorry", "pickup", "pickup truck", "van"),
    "tv": ("television", "monitor", "tv monitor", "tvmonitor", "television set", "screen"),
    "umbrella": ("parasol",),
    "wine glass": ("wineglass", "goblet"),
    "woman": ("lady",),
}


# The intended sense of named features whose names are ambiguous.
SENSES: Final = {
    "baseball": "the game",
    "keyboard": "that of a computer",
    "kite": "the toy",
    "mouse": "that of a computer",
    "orange": "the fruit",
    "wave": "one of water",
}


def find_name(word: str, names: Collection[str]) -> str | None:
    """Return the named feature for a word, or None. Case, hyphens and underscores are ignored.

    Plurals are left to the caller, except where the plural is the usual word.

    >>> find_name("Sofa", ["couch", "dog"]), find_name("dog", ["couch", "dog"]), find_name("tree", ["couch", "dog"])
    ('couch', 'dog', None)
    """
    return _names_by_word(tuple(names)).get(_plain(word))


@cache
def _names_by_word(names: tuple[str, ...]) -> dict[str, str]:
    """Return the named feature of each word; cached, because a gallery looks up thousands of words."""
    others = {_plain(other): name for name in reversed(names) for other in OTHER_WORDS.get(name, ())}
    return {**others, **{_plain(name): name for name in reversed(names)}}


def _plain(word: str) -> str:
    return " ".join(word.casefold().replace("-", " ").replace("_", " ").split())
