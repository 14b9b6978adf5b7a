"""A small gallery of real files, and a real server before it: in a thread, or as a command of its own."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

from andornot.gallery import Gallery
from andornot.ssl.recipe import make_recipe
from andornot.web.app import make_app
from andornot.web.connections import make_server
from andornot.web.serve import bind_socket

_PATIENCE = 30.0


def image(seed: int, size: tuple[int, int] = (60, 40)) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def save(path: Path, seed: int, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image(seed).save(path, **options)
    return path


def small_gallery(folder: Path) -> Gallery:
    """24 images in two folders: two have the same name, one a space in it, and one no browser can show."""
    for number in range(10):
        save(folder / "photos" / "cats" / f"cat-{number}.png", number)
        save(folder / "photos" / "dogs" / f"dog-{number}.jpg", 100 + number)
    save(folder / "photos" / "cats" / "twin.png", 200)
    save(folder / "photos" / "dogs" / "twin.png", 201)
    save(folder / "photos" / "dogs" / "my dog.gif", 202)
    save(folder / "photos" / "dogs" / "old.bmp", 203)
    recipe = make_recipe(
        {
            "regime": "calibrated",
            "backbone": "conv5",
            "backbone_options": {"width": 16},
            "num_values": 4,
            "calibration": {"power": 4, "smoothing": 0.2},
        }
    )
    gallery = Gallery.create(folder / "g", recipe=recipe)
    gallery.add(folder / "photos")
    return gallery


@contextmanager
def served(
    gallery: Gallery, *, host: str = "127.0.0.1", token: str | None = None, show_paths: bool = False
) -> Iterator[httpx.Client]:
    """A client of a server that runs meanwhile."""
    with bind_socket("127.0.0.1", 0) as listening:
        server = make_server(make_app(gallery, host=host, token=token, show_paths=show_paths))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(base_url=address, timeout=_PATIENCE) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(_PATIENCE)
            assert not thread.is_alive()


def address_of(client: httpx.Client) -> str:
    return str(client.base_url).rstrip("/")


@contextmanager
def command(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`andornot serve` with these options, and the address that it printed."""
    arguments = [sys.executable, "-m", "andornot", "serve", *options]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield process, next((word for word in line.split() if word.startswith("http")), "")
        finally:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def wait_until(happened: Callable[[], bool]) -> None:
    """Waits for something that another thread or process does."""
    end = time.monotonic() + _PATIENCE
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
