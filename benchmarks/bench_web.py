"""Searches over HTTP against the same searches in the process, in a gallery as large as a collection of photos."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import torch

from andornot import Gallery
from made_up import made_up_gallery
from timing import Row, best_ratio, print_table, settle

_IMAGES = 20_000
_TOP = 48
_CLIENTS = 32
_SECONDS = 8.0
_ROUNDS = 90
_CONDITION = "17 and 170 and not 1700"
_FORMULAS = ("{} & ~{}", "{} | {}", "({} | {}) - {}", "{}")


def main() -> None:
    settle()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "gallery"
        gallery = made_up_gallery(place, _IMAGES)
        with server(place) as address:
            searches = [round_trip(gallery, address, formula) for formula in (next(formulas(0)), _CONDITION)]
            rows = [*searches, *many_clients(gallery, address)]
    print_table(f"searches over HTTP, {_IMAGES:,} images, one thread of torch", rows)


@contextmanager
def server(gallery: Path) -> Iterator[str]:
    """The host and port of `andornot serve`, in a process of its own."""
    command = [sys.executable, "-m", "andornot", "serve", "--gallery", str(gallery), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield urlsplit(next(word for word in line.split() if word.startswith("http"))).netloc
        finally:
            process.terminate()


def formulas(seed: int) -> Iterator[str]:
    """Formulas without end over images of the gallery."""
    drawn = torch.Generator().manual_seed(seed)
    for form in itertools.cycle(_FORMULAS):
        yield form.format(*(torch.randint(1, _IMAGES, (3,), generator=drawn) + torch.arange(3)).tolist())


def asked(connection: HTTPConnection, formula: str) -> list[int]:
    """The ids of the hits."""
    connection.request("GET", f"/api/search?{urlencode({'formula': formula, 'top': _TOP})}")
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200, answer
    return [hit["id"] for hit in answer["hits"]]


def round_trip(gallery: Gallery, address: str, formula: str) -> Row:
    """One after the other, over HTTP and in the process in turns."""
    connection = HTTPConnection(address)
    assert asked(connection, formula) == [hit.id for hit in gallery.search(formula, _TOP)]
    _, mine, theirs = best_ratio(lambda: asked(connection, formula), lambda: gallery.search(formula, _TOP), _ROUNDS)
    more = 1000 * (mine - theirs)
    what = f"{formula} over HTTP, milliseconds beyond the {1000 * theirs:.1f} in the process"
    return Row(what, more, "≤ 5", more <= 5)


def many_clients(gallery: Gallery, address: str) -> Iterator[Row]:
    """Searches a second of many clients, against those of a loop in the process."""
    done, start = 0, time.perf_counter()
    for formula in formulas(1):
        gallery.search(formula, _TOP)
        done += 1
        if time.perf_counter() > start + _SECONDS:
            break
    in_process = done / (time.perf_counter() - start)
    start = time.perf_counter()

    def client(number: int) -> list[float]:
        connection, took = HTTPConnection(address), []
        for formula in formulas(2 + number):
            begin = time.perf_counter()
            asked(connection, formula)
            took.append(time.perf_counter() - begin)
            if time.perf_counter() > start + _SECONDS:
                break
        return took

    with ThreadPoolExecutor(_CLIENTS) as pool:
        took = sorted(itertools.chain(*pool.map(client, range(_CLIENTS))))
    ratio = len(took) / (time.perf_counter() - start) / in_process
    what = f"{_CLIENTS} clients at once, searches a second against {in_process:.0f} in the process"
    yield Row(what, ratio, "≥ 0.7", ratio >= 0.7)
    yield Row(f"{_CLIENTS} clients at once, seconds of the slowest of {len(took)} searches", took[-1], "-", True)


if __name__ == "__main__":
    main()
