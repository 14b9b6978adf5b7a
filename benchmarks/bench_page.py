"""What the page asks while somebody types, in a gallery of 100,000 pictures: completion, in the process and over HTTP."""

import json
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from andornot import Gallery
from andornot.gallery.completing import Completer
from andornot.gallery.word_index import WordCount, WordIndex
from andornot.ssl.recipe import make_recipe
from andornot.words.nouns import wordnet_nouns
from bench_web import filled, server
from timing import Row, print_table, settle

_PICTURES = 100_000
_ROUNDS = 20
_TEXTS = ("", "d", "do", "dog and so", "like(0001", "jpg", 'word:"polar b', "picture:09", "e", "xyz")
_RECIPE = {
    "regime": "calibrated",
    "backbone": "conv5",
    "backbone_options": {"width": 16},
    "num_values": 4,
    "calibration": {"power": 4, "doubt": 0.2},
}


def main() -> None:
    settle()
    with tempfile.TemporaryDirectory() as folder:
        gallery = filled(Path(folder) / "gallery", make_recipe(_RECIPE), _PICTURES)
        with server(gallery.folder) as address:
            rows = [in_process(gallery), over_http(address)]
    print_table(f"completion, {_PICTURES:,} pictures, milliseconds of the slowest of {len(_TEXTS)} texts", rows)


def in_process(gallery: Gallery) -> Row:
    """With all words that there are, though this gallery has none."""
    counts = {word: len(word) for word in wordnet_nouns()}
    words = WordIndex(counts, [WordCount(word, count) for word, count in list(counts.items())[:300]])
    completer = Completer(gallery.browse(), words, ["sunset", "my dog"])
    return _row("in the process, words and file names", lambda text: completer.complete(text, len(text), 8))


def over_http(address: str) -> Row:
    """As the page asks."""
    connection = HTTPConnection(address)

    def ask(text: str) -> object:
        connection.request("GET", f"/api/complete?{urlencode({'text': text})}")
        return json.loads(connection.getresponse().read())["completions"]

    while not ask("jpg"):  # the index of names is made meanwhile
        time.sleep(0.1)
    return _row("over HTTP, file names", ask)


def _row(what: str, complete: Callable[[str], object]) -> Row:
    slowest = max(min(_timed(complete, text) for _ in range(_ROUNDS)) for text in _TEXTS)
    return Row(what, 1000 * slowest, "≤ 20", slowest <= 0.02)


def _timed(complete: Callable[[str], object], text: str) -> float:
    start = time.perf_counter()
    complete(text)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
