"""Words that are taught, searches that are saved, and duplicates, on the page of a gallery that may be changed."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from browser import Page, check
from selenium.webdriver.common.keys import Keys
from serving import address_of, served

from andornot.gallery import Gallery


@pytest.fixture
def own(tmp_path, scenes, gallery) -> Gallery:
    """Eight images, of which one is there twice."""
    images = tmp_path / "images"
    images.mkdir()
    for file in sorted((scenes / "drawn").iterdir())[:8]:
        shutil.copy(file, images)
    shutil.copy(sorted(images.iterdir())[0], images / "copy.jpg")
    made = Gallery.create(tmp_path / "own", gallery.model)
    made.add(images, progress=False)
    return made


@pytest.fixture
def page(own, screenshots) -> Iterator[Page]:
    with served(own, show_paths=True) as client, closing(Page(address_of(client), screenshots)) as page:
        page.go()
        yield page
        check(page, " 400 ")


def albums(page: Page) -> list[str]:
    return page.run("return [...document.querySelectorAll('.albums b')].map((e) => e.firstChild.textContent)")


def defined(own: Gallery) -> dict[str, str]:
    return Gallery.open(own.address).definitions


def test_a_word_is_taught_by_examples_and_used_at_once(page, own):
    page.click("Teach a new word by examples")
    page.wait(lambda: len(page.all("#teach-photos .thumb")) == 9)
    page.one("#teach-name").send_keys("blob")
    assert not page.button("Save the word").is_enabled()
    first, second = page.all("#teach-photos .thumb")[1:3]
    names = [one.get_attribute("aria-label") for one in (first, second)]
    first.click()
    second.click()
    page.look("teach")
    page.click("Save the word")
    page.wait_formula("blob")
    page.wait_trays(all=["blob"])
    page.wait(page.hits)
    assert defined(own) == {"blob": f"like({names[0]}, {names[1]})"}
    page.type_formula("blo")
    page.wait(lambda: [one.text for one in page.all("#completions .label")] == ["blob"])


def test_an_unknown_word_offers_to_be_taught(page):
    page.type_formula("blob")
    page.press(Keys.ESCAPE)
    page.click("Teach “blob” by examples")
    page.wait(lambda: page.all("#teach-photos .thumb"))
    assert page.run("return document.getElementById('teach-name').value") == "blob"
    page.click("Cancel")
    page.wait(lambda: not page.is_open("teach-dialog"))


def test_a_search_is_saved_renamed_and_removed(page, own):
    page.go("/?q=1 and not 2")
    page.wait(page.hits)
    page.click("Save")
    page.one("#name-field").send_keys("my album" + Keys.ENTER)
    page.wait(lambda: "my album" in defined(own))
    page.go("/")
    page.wait(lambda: albums(page) == ["my album"])
    page.look("albums")
    page.click("my album: more")
    page.click("Rename")
    page.write(page.one("#name-field"), "red things" + Keys.ENTER)
    page.wait(lambda: albums(page) == ["red things"])
    page.one(".albums a").click()
    page.wait_formula('"red things"')
    page.wait(page.hits)
    page.go("/")
    page.click("red things: more")
    page.click("Remove")
    page.wait(lambda: not page.all(".albums"))
    assert defined(own) == {}


def test_a_name_that_is_not_allowed_is_explained(page, own):
    page.go("/?q=1")
    page.wait(page.hits)
    page.click("Save")
    page.one("#name-field").send_keys("copy.jpg" + Keys.ENTER)
    page.wait(lambda: "choose another name" in page.one("#notices p").text)
    assert defined(own) == {}


def test_duplicates_are_shown_in_groups_and_can_be_saved(page, own):
    page.go("/duplicates")
    page.wait(lambda: page.all(".duplicates > li"))
    group = page.one(".duplicates > li").text
    assert "2 photos" in group
    assert "copy" in group
    assert str(Path(own.paths[0]).parent) in group
    page.look("duplicates")
    page.one(".duplicates a").click()
    page.wait(page.opened)
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.is_open("lightbox"))
    rows = httpx.get(page.address + "/api/duplicates/list").text.splitlines()
    assert rows[0] == "group,copy,id,name,label,bytes,path"
    assert [row.split(",")[:2] for row in rows[1:]] == [["1", ""], ["1", "exact"]]


def test_only_the_owner_may_define(own):
    with served(own) as client:
        assert not client.get("/api/gallery").json()["can_define"]
        refused = client.post("/api/definitions", json={"name": "x", "formula": "1"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not-allowed")
        assert client.delete("/api/definitions/x").status_code == 403
