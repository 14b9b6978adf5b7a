"""What the page asks while somebody types, among 100,000 images: completion, in the process and over HTTP."""

import json
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

from andornot import Gallery
from andornot.concepts.nouns import wordnet_nouns
from andornot.gallery.words import WordCount, WordIndex
from andornot.web.browsing import Browser
from andornot.web.suggestions import Completer
from bench_web import server
from made_up import made_up_gallery
from timing import Row, print_table, settle

_IMAGES = 100_000
_ROUNDS = 20
_TEXTS = ("", "d", "do", "dog and so", "like(0001", "jpg", 'word:"polar b', "image:09", "e", "xyz")


def main() -> None:
    settle()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "gallery"
        gallery = made_up_gallery(place, _IMAGES)
        with server(place) as address:
            rows = [in_process(gallery), over_http(address)]
    print_table(f"completion, {_IMAGES:,} images, milliseconds of the slowest of {len(_TEXTS)} texts", rows)


def in_process(gallery: Gallery) -> Row:
    """With all words that there are, though this gallery has none."""
    counts = {word: len(word) for word in wordnet_nouns()}
    words = WordIndex(counts, [WordCount(word, count) for word, count in list(counts.items())[:300]])
    completer = Completer(Browser(gallery.planner), words, ["sunset", "my dog"])
    return _row("in the process, words and file names", lambda text: completer.complete(text, len(text), 8))


def over_http(address: str) -> Row:
    """As the page asks."""
    connection = HTTPConnection(address)

    def ask(text: str) -> object:
        connection.request("GET", f"/api/complete?{urlencode({'text': text})}")
        return json.loads(connection.getresponse().read())["completions"]

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
