"""Attacks a server of its own, at 127.0.0.1 and within bounds, and says what others notice of it."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from pathlib import Path
from urllib.parse import quote, urlsplit

import numpy as np
from PIL import Image

from andornot import Gallery
from andornot.ssl.recipe import make_recipe

_IMAGES = 60
_CLIENTS = 64
_SECONDS = 6.0
_SIDE = 7000  # of a large upload
_PATIENCE = 15.0  # then there is no answer
_FILES = 256  # that the server may have open
_HALF = b"GET /api/gallery HTTP/1.1\r\nHost: localhost\r\n"
_STALLED = b"POST /api/uploads HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 99999\r\n\r\n"
# A second and a half of work: six names occur twice.
_DEMANDING = f"at_least(6, {', '.join(f'({n} | {n + 1}), ({n} & {n + 2})' for n in range(1, 19, 3))})"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        gallery = made(Path(folder))
        print(f"{_IMAGES} images, {os.cpu_count()} cores, a server that may open {_FILES} files\n")
        for attack in (
            half_open,
            stalled_uploads,
            pipes,
            demanding_formulas,
            many_parameters,
            quoted_cookies,
            many_crops,
            many_clients,
        ):
            with server(gallery) as running:
                attack(running, gallery)
                running.end()


def half_open(running: "Server", _: Gallery) -> None:
    """300 connections that send half a head, and then 300 more."""
    with ExitStack() as stack:
        for count in (300, 600):
            opened = [stack.enter_context(running.connect(_HALF)) for _ in range(300)]
            tell(f"{count} half-open connections", f"a request is answered {running.asked('/api/gallery')}")
        begin = time.monotonic()
        closed = sum(is_closed(connection, begin + _PATIENCE) for connection in opened)
        tell("", f"{closed} of the last 300 are closed after {time.monotonic() - begin:.1f} s")


def stalled_uploads(running: "Server", gallery: Gallery) -> None:
    """Ten uploads that do not go on, and one that does."""
    content = Path(gallery.paths[0]).read_bytes()
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(running.connect(_STALLED))
        time.sleep(0.5)
        tell("10 stalled uploads", f"an upload is answered {running.asked('/api/uploads', content)}")


def pipes(running: "Server", gallery: Gallery) -> None:
    """A pipe in the place of an image, asked for more often than there are threads."""
    path = Path(gallery.paths[0])
    path.unlink()
    os.mkfifo(path)
    for what in ("thumbnail", "image"):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: running.asked(f"/api/images/1/{what}"), range(8)))  # noqa: B023
        tell(f"a pipe as an image, 8 times its {what}", f"answered {max(answers)}")
    tell("", f"a zip with it {running.asked('/api/download?formula=2&top=100')}")
    tell("", f"another thumbnail {running.asked('/api/images/3/thumbnail')}")
    path.unlink()
    path.write_bytes(Path(gallery.paths[1]).read_bytes())


def demanding_formulas(running: "Server", _: Gallery) -> None:
    """20 askers of formulas that take long, one after the other, and searches that do not."""
    stop = time.monotonic() + _SECONDS

    def attack(number: int) -> None:
        while time.monotonic() < stop:
            running.asked(f"/api/search?formula={quote(f'{_DEMANDING} & {number + 20}')}")

    with ThreadPoolExecutor(20) as pool:
        attackers = [pool.submit(attack, number) for number in range(20)]
        time.sleep(0.5)
        seconds = []
        while time.monotonic() < stop:
            begin = time.monotonic()
            running.asked("/api/search?formula=1")
            seconds.append(time.monotonic() - begin)
        for attacker in attackers:
            attacker.result()
    tell("20 askers of demanding formulas", f"{len(seconds)} other searches, the slowest in {max(seconds):.2f} s")


def many_parameters(running: "Server", _: Gallery) -> None:
    """Four connections with 10,000 unknown parameters each, and a request beside them."""
    query = "&".join(f"a{number}" for number in range(10_000))
    answers, beside = running.asked_beside(4 * [f"/api/search?{query}"])
    tell("4 queries of 10,000 parameters", f"answered {max(answers)}; a request beside them {beside}")


def quoted_cookies(running: "Server", _: Gallery) -> None:
    """Four connections with a cookie of 60 kB in which every other character is quoted, and a request beside them."""
    cookie = 'a="' + r"\a" * 30_000 + '"'
    answers, beside = running.asked_beside(4 * ["/api/gallery"], {"Cookie": cookie})
    tell("4 cookies of 60 kB", f"answered {max(answers)}; a request beside them {beside}")


def many_crops(running: "Server", _: Gallery) -> None:
    """An upload of 7000 x 7000 pixels, four formulas of 40 crops of it and four of 16, and searches beside them."""
    buffer = BytesIO()
    Image.new("RGB", (_SIDE, _SIDE)).save(buffer, "PNG")
    name = running.upload(buffer.getvalue())
    for count in (40, 16):
        crops = [quote("|".join(f"{name}[0,0,{_SIDE - n},{_SIDE}]" for n in range(count))) for _ in range(4)]
        answers, beside = running.asked_beside([f"/api/search?formula={formula}" for formula in crops])
        tell(
            f"4 formulas of {count} crops, {len(buffer.getvalue()) // 1000} kB",
            f"answered {', '.join(sorted(answers))}; a search beside them {beside}",
        )
    tell("", f"at most {running.peak_of_memory:.1f} GB")


def many_clients(running: "Server", _: Gallery) -> None:
    """Searches and thumbnails by 64 clients at once, a connection for each request."""
    stop = time.monotonic() + _SECONDS

    def ask(number: int) -> list[tuple[str, float]]:
        told = []
        while time.monotonic() < stop:
            begin = time.monotonic()
            address = (
                f"/api/search?formula={number % 30 + 1}" if number % 2 else f"/api/images/{number // 2 + 1}/thumbnail"
            )
            told.append((running.asked(address).split()[0], time.monotonic() - begin))
        return told

    with ThreadPoolExecutor(_CLIENTS) as pool:
        told = [answer for answers in pool.map(ask, range(_CLIENTS)) for answer in answers]
    counts = {status: sum(status == other for other, _ in told) for status in sorted({status for status, _ in told})}
    slow = float(np.quantile([seconds for _, seconds in told], 0.99))
    tell(f"{_CLIENTS} clients for {_SECONDS:.0f} s", f"answers {counts}, 99 of 100 within {slow:.2f} s")


class Server:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        assert process.stdout is not None
        line = process.stdout.readline()
        address = urlsplit(next(word for word in line.split() if word.startswith("http")))
        self._address = "127.0.0.1", int(address.port or 0)

    def connect(self, sent: bytes) -> socket.socket:
        """A connection that has sent that."""
        connection = socket.create_connection(self._address, _PATIENCE)
        connection.sendall(sent)
        return connection

    def asked(self, path: str, content: bytes | None = None, headers: dict[str, str] | None = None) -> str:
        """The status of an answer, and how long it took."""
        begin = time.monotonic()
        connection = HTTPConnection(*self._address, timeout=_PATIENCE)
        try:
            connection.request(
                "POST" if content else "GET", path, content, {"Content-Type": "image/png"} | (headers or {})
            )
            response = connection.getresponse()
            response.read()
            status = str(response.status)
        except (OSError, HTTPException) as error:
            status = type(error).__name__
        finally:
            connection.close()
        return f"{status} after {time.monotonic() - begin:.2f} s"

    def asked_beside(self, paths: list[str], headers: dict[str, str] | None = None) -> tuple[list[str], str]:
        """The answers to requests that are sent at once, and the slowest answer to searches until all are there."""
        with ThreadPoolExecutor(len(paths)) as pool:
            attacks = [pool.submit(self.asked, path, headers=headers) for path in paths]
            time.sleep(0.1)
            beside = [self.asked("/api/search?formula=1")]
            while not all(attack.done() for attack in attacks):
                beside.append(self.asked("/api/search?formula=1"))
                time.sleep(0.1)
        return [attack.result() for attack in attacks], max(beside, key=lambda told: float(told.split()[2]))

    def upload(self, content: bytes) -> str:
        """The name of an uploaded image."""
        connection = HTTPConnection(*self._address, timeout=_PATIENCE)
        connection.request("POST", "/api/uploads", content, {"Content-Type": "image/png"})
        name: str = json.load(connection.getresponse())["upload"]
        connection.close()
        return name

    @property
    def peak_of_memory(self) -> float:
        """The most memory that the process had, in GB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1e6

    def end(self) -> None:
        """Says how long it takes, with a search under way and connections that are half open."""
        with ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(self.connect(_HALF))
            search = f"GET /api/search?formula={quote(_DEMANDING)} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            stack.enter_context(self.connect(search.encode()))
            time.sleep(0.3)
            begin = time.monotonic()
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(40)
                ended = f"ended {time.monotonic() - begin:.1f} s after SIGTERM"
            except subprocess.TimeoutExpired:
                ended = "not ended 40 s after SIGTERM"
                self._process.kill()
        tell("", f"{ended}, {self._log.read_text().count(chr(10)):,} lines in the log\n")


@contextmanager
def server(gallery: Gallery) -> Iterator[Server]:
    command = [sys.executable, "-m", "andornot", "serve", "--gallery", str(gallery.folder), "--port", "0"]
    with (
        tempfile.TemporaryDirectory() as folder,
        (Path(folder) / "log").open("w") as log,  # not a pipe: who writes a lot would wait for a reader
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=few_files) as process,
    ):
        try:
            yield Server(process, Path(log.name))
        finally:
            process.kill()


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, _FILES))


def is_closed(connection: socket.socket, deadline: float) -> bool:
    connection.settimeout(max(0.01, deadline - time.monotonic()))
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def made(folder: Path) -> Gallery:
    """A gallery of images out of the air."""
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for number in range(_IMAGES):
        coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        coarse.resize((640, 480), Image.Resampling.BICUBIC).save(folder / "photos" / f"{number:03}.png")
    recipe = make_recipe({"regime": "calibrated", "backbone": "conv5", "num_values": 8})
    gallery = Gallery.create(folder / "g", recipe=recipe)
    gallery.add(folder / "photos", progress=False)
    return gallery


def tell(attack: str, noticed: str) -> None:
    print(f"{attack:<43}{noticed}", flush=True)


if __name__ == "__main__":
    main()
