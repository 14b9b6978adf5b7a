"""The texts of the page: all of them are in the tables of translations, and the page shows them."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import andornot.web

STATIC = Path(andornot.web.__file__).parent / "static"
# t("a text") and t(condition ? "one text" : "another"), also over several lines.
_CALL = re.compile(r'\bt\(\s*(?:[^"();]*\?\s*)?"((?:[^"\\]|\\.)*)"(?:\s*:\s*"((?:[^"\\]|\\.)*)")?')


class _Texts(HTMLParser):
    """Collects what a page says, except code, keys and the name of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.found |= {value for name, value in attrs if name in ("aria-label", "title", "placeholder") and value}

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag else self._inside

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if self._inside not in ("code", "kbd", "script") and re.search("[A-Za-z]", text) and text != "andornot":
            self.found.add(text)


def texts_of_the_page() -> set[str]:
    page = _Texts()
    page.feed((STATIC / "index.html").read_text())
    calls = (match for file in STATIC.glob("js/*.js") for match in _CALL.finditer(file.read_text()))
    return page.found | {text for match in calls for text in match.groups() if text}


@pytest.mark.parametrize("table", sorted((STATIC / "texts").glob("*.json")), ids=lambda file: file.stem)
def test_every_text_is_translated_with_its_values(table):
    translated = json.loads(table.read_text())
    assert texts_of_the_page() - translated.keys() == set()
    for text, translation in translated.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", translation)), text


def test_the_page_speaks_german(page):
    page.run("localStorage.setItem('andornot-language', 'de')")
    page.go("/?q=1")
    page.wait(page.hits)
    assert page.run("return document.documentElement.lang") == "de"
    assert page.one(".tabs").text.split("\n") == ["Ergebnisse", "Alle Fotos"]
    assert page.one("#formula").get_attribute("placeholder").startswith("Was sollen die Fotos zeigen?")
    page.open(page.tiles()[0])
    page.wait(lambda: page.button("Nicht diese Art"))
    page.go("/help")
    assert page.one("h1").text == "So suchen Sie"
    page.look("german")
    page.click("Menü")
    page.wait(lambda: page.one("#language").send_keys("English") is None)
    page.wait(lambda: page.one("h1").text == "How to search")


def test_the_page_can_be_installed_and_caches_no_photos(page):
    manifest = page.run_async(
        "const link = document.querySelector('link[rel=manifest]').href;"
        "const manifest = await (await fetch(link)).json();"
        "const drawn = manifest.icons.filter(({ type }) => type === 'image/png');"
        "const sizes = await Promise.all(drawn.map(async (icon) => {"
        "  const bitmap = await createImageBitmap(await (await fetch(icon.src)).blob());"
        "  return [icon.sizes, `${bitmap.width}x${bitmap.height}`]; }));"
        "return { display: manifest.display, sizes,"
        "  workers: (await navigator.serviceWorker.getRegistrations()).length }"
    )
    assert manifest["display"] == "standalone"
    assert manifest["sizes"] == [["192x192", "192x192"], ["512x512", "512x512"]]
    assert manifest["workers"] == 0
