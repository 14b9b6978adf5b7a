"""A gallery of drawn scenes on a real server, and a real browser before it."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from browser import NARROW, Page, check
from serving import address_of, served

from andornot.data import open_images
from andornot.demo import write_scenes
from andornot.gallery import Gallery


@pytest.fixture(scope="session")
def scenes(tmp_path_factory) -> Path:
    """Images in two folders: one with a name that needs quotes, two with the same name."""
    folder = tmp_path_factory.mktemp("images")
    write_scenes(open_images("scenes:?count=60"), folder / "drawn")
    write_scenes(open_images("scenes:?count=4&seed=1"), folder / "more")
    for file, name in zip(
        sorted((folder / "more").iterdir()), ("a cow.jpg", "b.jpg", "same.jpg", "z.jpg"), strict=True
    ):
        file.rename(file.with_name(name))
    (folder / "more" / "z.jpg").rename(folder / "drawn" / "same.jpg")
    return folder


@pytest.fixture(scope="session")
def gallery(tmp_path_factory, scenes) -> Gallery:
    gallery = Gallery.create(tmp_path_factory.mktemp("galleries") / "scenes")
    gallery.add(scenes, progress=False)
    return gallery


@pytest.fixture(scope="session")
def address(gallery) -> Iterator[str]:
    with served(gallery) as client:
        yield address_of(client)


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory) -> Path:
    kept = os.environ.get("ANDORNOT_SCREENSHOTS")
    return Path(kept) if kept else tmp_path_factory.mktemp("screenshots")


@pytest.fixture(scope="session")
def window(address, screenshots) -> Iterator[Page]:
    """One browser for all tests that want a wide window."""
    with closing(Page(address, screenshots)) as page:
        yield page


@pytest.fixture
def page(window) -> Iterator[Page]:
    """The first view. After the test nothing may have gone wrong, and nothing have left the machine."""
    window.errors()  # those of a test that failed are not of this one
    window.go()
    yield window
    check(window)
    window.run("localStorage.clear()")


@pytest.fixture
def phone(address, screenshots) -> Iterator[Page]:
    with closing(Page(address, screenshots, NARROW, touch=True)) as page:
        page.go()
        yield page
        check(page)
