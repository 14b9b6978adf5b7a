"""The page in a real browser, on a real server, with a gallery of drawn scenes."""

import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
import torch
from browser import BAD_REQUEST, NARROW, WIDE, Page, check
from selenium.webdriver.common.keys import Keys
from selenium_axe_python import Axe
from serving import address_of, command, served

from andornot.data import open_images
from andornot.gallery import Gallery
from andornot.logic import Formula, Representation


@contextmanager
def opened(gallery: Gallery, screenshots: Path, *options: object) -> Iterator[Page]:
    """A browser of its own, on a server of its own."""
    with served(gallery) as client, closing(Page(address_of(client), screenshots, *options)) as page:
        page.go()
        yield page


def found(gallery: Gallery, formula: str, top: int = 4, **options: object) -> list[str]:
    return [Path(hit.path).name for hit in gallery.search(formula, top=top, **options)]


def image_file(folder: Path) -> Path:
    """An image that is not in the gallery."""
    file = folder / "mine.png"
    open_images("scenes:?count=5&seed=2").read(4).save(file)
    return file


# --- building a query ------------------------------------------------------------------------------------------------


def test_a_click_finds_what_is_like_the_image(page, gallery):
    [name] = page.first(1)
    page.look("all")
    page.choose(name)
    page.wait_trays(all=[name])
    page.wait_formula(name)
    page.wait_hits(found(gallery, name))
    page.look("hits")


def test_text_becomes_trays_and_trays_become_text(page, gallery):
    a, b, c = page.first(3)
    text = f"{a}  and not {c} and ({b} or 5)"
    page.type_formula(text)
    fifth = page.wait(lambda: page.trays()["any"])[1]
    page.wait_trays(all=[a], any=[b, fifth], none=[c])
    page.wait_hits(found(gallery, text))
    assert page.formula == text  # what was typed stays, as long as only text is edited
    page.chip(c).send_keys("a")
    page.wait_formula(f"{a} and {c} and ({b} or 5)")
    page.chip(a).send_keys(Keys.DELETE)
    page.wait_formula(f"{c} and ({b} or 5)")
    page.wait_hits(found(gallery, f"{c} and ({b} or 5)"))


def test_names_are_written_as_the_formula_wants_them(page, gallery):
    page.go("/?label=more")
    page.wait(lambda: page.tiles() == ["a cow.jpg", "b.jpg", "same.jpg"])
    page.choose("a cow.jpg")
    page.wait_formula('"a cow.jpg"')
    page.click("All photos")
    page.choose("same.jpg")  # there are two of that name
    identity = next(i for i, path in zip(gallery.ids, gallery.paths, strict=True) if path.endswith("more/same.jpg"))
    page.wait_formula(f'like("a cow.jpg", {identity})')


def test_a_mistake_is_shown_at_its_spot_while_the_results_stay(window):
    window.go()
    [name] = window.first(1)
    window.type_formula(name)
    window.wait(window.hits)
    before = window.hits()
    window.one("#formula").send_keys(" & | x")
    message = 'expected a name or "(", found "|"'
    window.wait(lambda: window.one("#formula-error").text == message)  # another one while it was half typed
    assert window.run("return document.querySelector('#formula-copy mark').textContent") == "|"
    below = window.run(
        "const [mark, pointer] = ['#formula-copy mark', '#formula-error .pointer']"
        "  .map((one) => document.querySelector(one).getBoundingClientRect());"
        "return [Math.abs(mark.left + mark.width / 2 - pointer.left - pointer.width / 2), pointer.top - mark.bottom]"
    )
    assert below[0] < 6
    assert 0 <= below[1] < 20
    assert window.hits()[: len(before)] == before
    window.look("mistake")
    window.type_formula(f"{name} | nobody.jpg")
    window.wait(lambda: "Unknown word or file name." in window.one("#formula-error").text)
    assert window.run("return document.querySelector('#formula-copy mark').textContent") == "nobody.jpg"
    window.type_formula(name)
    window.wait(lambda: not window.all("#formula-copy mark"))
    assert not window.driver.find_element("id", "formula-error").is_displayed()
    check(window)


def test_an_address_that_cannot_be_searched_says_why(window):
    window.go(f"/?q={quote('1 | nobody.jpg')}")
    window.wait(lambda: "This query has a mistake" in window.one("#main").text)
    window.click("Show all photos")
    window.wait(window.tiles)
    check(window, BAD_REQUEST)


def some_formulas(count: int) -> list[str]:
    """Formulas of all shapes, in which no image is named twice."""
    chance = random.Random(0)

    def grow(depth: int, names: Iterator[int]) -> str:
        kind = chance.choice(["name", "not", "|", "&", "-", "|", "&", "-", "at_least", "like"]) if depth else "name"
        if kind == "name":
            return str(next(names))
        if kind == "not":
            return f"~({grow(depth - 1, names)})"
        operands = [f"({grow(depth - 1, names)})" for _ in range(chance.randint(2, 3))]
        if kind == "at_least":
            return f"at_least({chance.randint(1, len(operands))}, {', '.join(operands)})"
        if kind == "like":
            return f"like({', '.join(operands)})"
        return f" {kind} ".join(operands)

    return [str(Formula(grow(chance.randint(1, 3), itertools.count(1)))) for _ in range(count)]


def test_text_to_trays_to_text_keeps_the_meaning(page):
    by_hand = [
        "1",
        "~1",
        "~~1",
        "~1 & ~2",
        "~(1 | 2)",
        "1 - 2 - 3",
        "1 - 2 & ~3",
        "1 & ~2 - 3",
        "1 & ~2 & 3",
        "(1 - 2) & 3",
    ]
    by_hand += [
        "1 & (2 | 3)",
        "(1 | 2) & (3 | 4)",
        "1 | 2 & 3",
        "~1 - 2",
        "(~1 & ~2) - 3",
        "1 - (2 - 3)",
        "~1 | 2",
        "~1 & 2",
    ]
    formulas = [*by_hand, *some_formulas(200)]
    told = through_trays(page, formulas)
    values = Representation(torch.rand(27, 3, 3, generator=torch.Generator().manual_seed(0)).softmax(-1))
    images = {str(number): value for number, value in enumerate(values, 1)}
    for formula, (once, twice) in zip(formulas, told, strict=True):
        assert once == twice, formula
        for logic in ("godel", "lukasiewicz"):
            one, other = (Formula(text).evaluate(images, logic=logic) for text in (formula, once))
            assert one.isclose(other), f"{formula} became {once}"


def some_conditions(count: int) -> list[str]:
    """Conditions of all shapes, in which no image is named twice."""
    chance = random.Random(1)

    def grow(depth: int, names: Iterator[int]) -> str:
        kind = chance.choice(["term", "not", "and", "or", "and", "or"]) if depth else "term"
        if kind == "term":
            inside = " | ".join(str(next(names)) for _ in range(chance.choice([1, 1, 2])))
            return chance.choice(["", "", "2*", "0.5*"]) + chance.choice(["({})", "like({})"]).format(inside)
        if kind == "not":
            return f"not ({grow(depth - 1, names)})"
        return f" {kind} ".join(f"({grow(depth - 1, names)})" for _ in range(chance.randint(2, 3)))

    return [grow(chance.randint(1, 3), itertools.count(1)) for _ in range(count)]


def test_conditions_keep_their_meaning_in_trays(page):
    formulas = ["not 1", "not not 1", "1 and 2 or 3", "(1 or 2) and (3 or 4)", "not (2*1 or 2)", *some_conditions(100)]
    told = through_trays(page, formulas)
    for formula, (once, twice) in zip(formulas, told, strict=True):
        assert once == twice, formula
        truths = {}
        for name in Formula(formula).names:
            truths[name] = torch.tensor(int(name) / 30)
        one, other = (of_terms(Formula(text), truths) for text in (formula, once))
        assert one == pytest.approx(other, abs=1e-5), f"{formula} became {once}"


def of_terms(formula: Formula, truths: dict[str, torch.Tensor]) -> float:
    """The truth of a condition; that of a term is the mean of its images'."""
    given = [torch.stack([truths[name] for name in term.names]).mean() for term in formula.terms]
    return formula.truth_of_terms(given).item()


def through_trays(page: Page, formulas: list[str]) -> list[list[str]]:
    """Each formula written from its trays, and once more."""
    return page.run_async(
        "const { read, write } = await import('/static/js/formula.js');"
        "const { ask } = await import('/static/js/api.js');"
        "const through = async (text) => write(read((await ask('/api/formula', { formula: text })).tree, text));"
        "return Promise.all(given[0].map(async (text) => {"
        "  const once = await through(text); return [once, await through(once)]; }))",
        formulas,
    )


# --- images from elsewhere -----------------------------------------------------------------------------------------


def test_a_file_joins_the_query(page, gallery, tmp_path):
    file = image_file(tmp_path)
    page.driver.find_element("id", "file").send_keys(str(file))
    page.wait_trays(all=["mine.png"])
    assert page.formula.startswith("upload-")
    page.wait_hits(found(gallery, str(file)))
    page.look("upload")


def test_a_file_keeps_its_name_when_the_page_is_loaded_again(page, gallery, tmp_path):
    file = image_file(tmp_path)
    page.driver.find_element("id", "file").send_keys(str(file))
    page.wait_trays(all=["mine.png"])
    page.wait_hits(found(gallery, str(file)))
    page.driver.refresh()
    page.wait_trays(all=["mine.png"])
    page.wait_hits(found(gallery, str(file)))
    assert page.one("#sentence").text == "Photos that are like mine.png"


def test_a_file_can_be_dropped_on_a_tray_or_pasted(page, tmp_path):
    content = list(image_file(tmp_path).read_bytes())
    page.run(
        "const transfer = new DataTransfer();"
        "transfer.items.add(new File([new Uint8Array(arguments[0])], 'dropped.png', { type: 'image/png' }));"
        "for (const kind of ['dragover', 'drop'])"
        "  document.querySelector('.tray.none').dispatchEvent("
        "    new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true }));",
        content,
    )
    page.wait_trays(none=["dropped.png"])
    page.run(
        "const transfer = new DataTransfer();"
        "transfer.items.add(new File([new Uint8Array(arguments[0])], 'pasted.png', { type: 'image/png' }));"
        "document.body.dispatchEvent(new ClipboardEvent('paste', { clipboardData: transfer, bubbles: true }));",
        content,
    )
    page.wait_trays(all=["pasted.png"], none=["dropped.png"])
    page.wait(lambda: page.formula.count("upload-") == 2 and " and not " in page.formula)


def test_the_camera_takes_an_image(page):
    page.click("Camera")
    page.wait(lambda: page.run("return document.getElementById('viewfinder').videoWidth"))
    page.click("Take photo")
    page.wait_trays(all=["photo.jpg"])


def test_what_is_no_image_is_refused_in_words(window, tmp_path):
    window.go()
    file = tmp_path / "broken.png"
    file.write_bytes(b"no image")
    window.driver.find_element("id", "file").send_keys(str(file))
    assert window.one("#notices p").text.startswith("broken.png: ")
    window.wait_trays()
    check(window, " 415 ")


# --- the panel of a photo --------------------------------------------------------------------------------------------


def test_why_this_one_leads_to_the_feature(page, gallery):
    [name] = page.first(1)
    page.choose(name)
    first, second = found(gallery, name, 2)
    page.wait_hits([first, second])
    page.open(first)
    page.wait(lambda: "Why this photo" in page.one("#lightbox").text)
    [hit] = gallery.search(name, top=1, why=True)
    assert "Feature " not in page.one("#lightbox").text
    page.wait(lambda: page.one("#lightbox summary").click() is None)
    section = page.one("#lightbox .features")
    assert [row.text.splitlines()[0] for row in section.find_elements("css selector", "li")] == [
        f"Feature {reason.feature}" for reason in hit.why
    ]
    assert len(section.find_elements("css selector", ".shown-by img")) == 3 * len(hit.why)
    assert f"image={hit.id}" in page.driver.current_url
    page.look("why")
    page.press(Keys.ARROW_RIGHT)
    page.wait(lambda: page.opened() == second)
    page.driver.back()
    page.wait(lambda: not page.is_open("lightbox"))
    page.driver.forward()
    page.wait(lambda: page.opened() == second)
    # "Advanced" stays unfolded from photo to photo.
    page.wait(lambda: page.one("#lightbox .features a").click() is None)
    page.wait(lambda: page.one("#main h1").text.startswith("Feature "))
    page.wait(lambda: not page.is_open("lightbox"))


def test_the_page_of_a_feature_shows_its_degrees_and_its_images(page, gallery):
    page.click("Menu")
    page.click("Features")
    page.wait(lambda: len(page.all(".card")) == 60)
    page.look("features")
    page.click("Show more")
    page.wait(lambda: len(page.all(".card")) == 120)
    page.center(page.one(".card"))
    page.one(".card").click()
    page.wait(lambda: page.one("#main h1").text.startswith("Feature "))
    page.wait(page.hits)
    degrees = page.run("return [...document.querySelectorAll('.note b')].map((note) => Number(note.textContent))")
    assert degrees == sorted(degrees, reverse=True)
    counts = page.run(
        "return [...document.querySelectorAll('.spread tbody tr')].map((row) => Number(row.cells[1].textContent))"
    )
    assert len(counts) == 20
    assert sum(counts) == len(gallery)
    page.look("feature")
    name = page.hits()[0]
    page.choose(name)  # an image can be taken from here too, and the results show up above
    page.wait_formula(name)
    page.one(".peek").click()
    page.wait_hits(found(gallery, name))


def test_two_images_and_what_the_logic_makes_of_them(page):
    a, b = page.first(2)
    page.type_formula(f"{a} and {b}")
    page.wait_trays(all=[a, b])
    page.click("Menu")
    page.click("Compare")
    page.wait(lambda: page.all(".logic tbody tr"))
    values = page.run(
        "return [...document.querySelectorAll('.logic tbody tr')].map((row) =>"
        "  [...row.querySelectorAll('td .value')].map((value) => Number(value.textContent)))"
    )
    assert len(values) == 15
    for one, other, either, both, not_one, less, _ in values:
        assert either >= max(one, other) - 0.02
        assert both <= min(one, other) + 0.02
        assert not_one == pytest.approx(1 - one, abs=0.011)
        assert less <= one + 0.01
    page.look("compare")
    page.click("Distributions")
    page.wait(lambda: len(page.all(".distribution")) == 15 * 7)
    page.look("distributions")
    page.click("Swap")
    page.wait(lambda: page.one('[aria-label="Photo a"]').get_attribute("value") == b)
    page.drag(page.chip(b), ".swap + .slot")
    page.wait(lambda: page.one('[aria-label="Photo b"]').get_attribute("value") == b)
    page.write(page.one('[aria-label="Photo a"]'), a + Keys.ENTER)
    page.wait(lambda: "distance" in page.one("#main").text and a in page.one(".slots img").get_attribute("alt"))


# --- the address -----------------------------------------------------------------------------------------------------


def test_back_and_forward_lead_through_queries_and_views(page, gallery):
    a, b = page.first(2)
    page.choose(a)
    page.wait_hits(found(gallery, a))
    page.click("Menu")
    page.click("Features")
    page.wait(lambda: page.all(".card"))
    page.click("Menu")
    page.click("Photos")
    page.wait_hits(found(gallery, a))
    page.type_formula(f"{a} and {b}")
    page.wait_hits(found(gallery, f"{a} and {b}"))
    page.driver.back()
    page.wait_trays(all=[a])
    page.wait_hits(found(gallery, a))
    page.driver.back()
    page.wait(lambda: page.all(".card"))
    page.driver.back()
    page.driver.back()
    page.wait(lambda: page.tiles()[:2] == [a, b])
    page.wait_trays()
    for _ in range(4):
        page.driver.forward()
    page.wait_trays(all=[a, b])
    page.wait_hits(found(gallery, f"{a} and {b}"))


def test_the_date_of_a_file_is_not_called_taken(page):
    page.go("/?image=1")
    page.wait(lambda: "file of " in page.one("#lightbox-facts").text)
    assert "taken" not in page.one("#lightbox-facts").text
    page.go("/?after=2000-01-01")
    page.wait(lambda: "No photo passes the filters" in page.one("#main").text)
    page.go("/?after=2000-01-01&file_dates=1")
    page.wait(page.tiles)
    assert page.run("return document.getElementById('option-file_dates').checked")


def test_the_address_holds_query_score_and_filters(page, gallery):
    page.go(f"/?q={quote('1 | 2')}&score=containment&label=drawn")
    page.wait(lambda: "of 61 photos" in page.one(".facts").text)
    page.wait_hits(
        [name for name in found(gallery, "1 | 2", 8, score="containment") if name not in ("b.jpg", "a cow.jpg")][:2]
    )
    page.one("#options summary").click()
    page.look("options")
    assert page.run("return document.getElementById('option-score').value") == "containment"
    page.run(
        "const field = document.getElementById('option-before');"
        "field.value = '1999-01-01'; field.dispatchEvent(new Event('change'))"
    )
    page.wait(lambda: "No results" in page.one("#main").text)
    assert "before=1999-01-01" in page.driver.current_url
    page.look("nothing")
    page.go("/?before=1999-01-01")
    page.wait(lambda: "No photo passes the filters" in page.one("#main").text)
    page.click("Show all photos")
    page.wait(page.tiles)


def test_hits_can_be_saved(page, gallery, tmp_path):
    page.driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page.go("/?q=1")
    page.wait(page.hits)
    page.click("List")
    downloaded = lambda pattern: next((file for file in tmp_path.glob(pattern) if file.stat().st_size), None)  # noqa: E731
    lines = page.wait(lambda: downloaded("*.csv")).read_text().splitlines()
    strong = [hit for hit in gallery.search("1", top=1000) if not hit.is_weak]
    assert len(lines) == 1 + len(strong)
    assert found(gallery, "1", 1)[0] in lines[1]
    page.click("Photos")
    page.wait(lambda: downloaded("*.zip"))


# --- how it can be used ----------------------------------------------------------------------------------------------


def test_the_keyboard_is_enough(page, gallery):
    focused = lambda: page.run("return document.activeElement.title")  # noqa: E731
    a, b = page.first(2)
    for _ in range(80):
        page.press(Keys.TAB)
        if focused() == a:
            break
    assert focused() == a
    page.press(Keys.ARROW_RIGHT)
    assert focused() == b
    page.press(Keys.ARROW_LEFT, Keys.ARROW_RIGHT, "m")
    page.wait_trays(all=[b])
    near = found(gallery, b)
    page.wait_hits(near)
    assert focused() == near[0]
    page.press(Keys.ARROW_RIGHT, "m")
    page.wait_formula(f"like({b}, {near[1]})")
    hits = found(gallery, page.formula)
    page.wait_hits(hits)
    page.press("k")
    page.wait_formula(f"like({b}, {near[1]}) and not {hits[0]}")
    hits = found(gallery, page.formula)
    page.wait_hits(hits)
    page.press(Keys.ENTER)
    page.wait(lambda: page.opened() == hits[0])
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.is_open("lightbox"))
    page.wait(lambda: focused() == hits[0])
    page.press("/")
    page.wait(lambda: page.run("return document.activeElement.id") == "formula")
    page.press(Keys.ESCAPE)
    assert page.run("return document.activeElement.id") != "formula"
    page.look("keyboard")


def test_the_grid_keeps_only_what_is_in_view(page):
    """A listing of 100,000: the images of the gallery again and again, under other names."""
    fake = page.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {
            "source": """
        const real = window.fetch;
        window.fetch = async (address, options) => {
          const { pathname, searchParams } = new URL(address, location);
          if (pathname !== "/api/images") return real(address, options);
          const [offset, limit] = ["offset", "limit"].map((name) => Number(searchParams.get(name)));
          const images = Array.from({ length: Math.min(limit, 100_000 - offset) }, (_, place) => {
            const number = offset + place;
            return { id: 1 + number % 60, name: `${number}.jpg`, term: `${1 + number % 60}`, label: "", taken: null,
              width: 100 + number % 7 * 30, height: 150 };
          });
          return Response.json({ total: 100_000, offset, images });
        };"""
        },
    )
    try:
        page.go()
        page.wait(lambda: "100,000 photos" in page.one(".facts").text)
        page.wait(lambda: page.tiles()[:1] == ["0.jpg"])
        for target in (50_000, 99_999, 3):
            page.run("scrollTo(0, arguments[0] * document.querySelector('.grid').clientHeight)", target / 100_000)
            page.tile(f"{target}.jpg")
            assert len(page.all(".tile")) < 150
        page.run("document.querySelector('.tile[tabindex=\"0\"]').focus()")
        page.press(Keys.END)
        page.wait(lambda: page.run("return document.activeElement.title") == "99999.jpg")
        page.press(Keys.PAGE_UP, Keys.HOME)
        page.wait(lambda: page.run("return document.activeElement.title") == "0.jpg")
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", fake)


def test_a_narrow_screen_folds_the_query(phone, gallery):
    assert phone.run("return document.documentElement.scrollWidth") <= NARROW[0]
    phone.look("narrow")
    [name] = phone.first_below(1)
    phone.wait_trays()
    phone.tap(phone.tile(name).find_element("css selector", "[data-offer=more]"))
    phone.wait_trays(all=[name])
    phone.wait_hits(found(gallery, name, 2))
    assert not phone.driver.find_element("id", "trays").is_displayed()
    phone.tap(phone.one("#unfold"))
    assert phone.one("#trays").is_displayed()
    phone.look("narrow-query")
    phone.tap_on("Clear")
    phone.wait_trays()
    phone.tap(phone.one("#unfold"))
    phone.first_below(1)
    for path in ("/features", "/feature/3", "/compare?a=1&b=2", "/help", "/?q=1&image=2"):
        phone.go(path)
        phone.look(f"narrow{path.partition('?')[0].replace('/', '-')}")
        assert phone.run("return document.documentElement.scrollWidth") <= NARROW[0], path


def test_dark_is_followed_and_can_be_chosen(page):
    ground = lambda: page.run("return getComputedStyle(document.body).backgroundColor")  # noqa: E731
    light = ground()
    page.click("Menu")
    page.click("Dark mode")
    dark = ground()
    assert dark != light
    page.driver.refresh()
    page.wait(lambda: page.tiles())
    assert ground() == dark
    page.look("dark")
    page.run("localStorage.clear()")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page.driver.refresh()
    page.wait(lambda: page.tiles())
    assert ground() == dark
    assert page.driver.find_element("id", "theme").get_attribute("aria-pressed") == "true"
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# Where each view is, and what is there when it is drawn.
VIEWS = {
    "start": ("/", ".start .examples img"),
    "all": ("/?q=1&all=1", ".tile.is-loaded"),
    "hits": ("/?q=(1 | 2) %26 ~3", ".tile.is-loaded .note"),
    "groups": ("/?q=(1 | 2) %26 at_least(2, 3, 4, 5) - (6 | 7)", ".chip.blend"),
    "mistake": ("/?q=1 %26", "#formula-copy mark"),
    "nothing": ("/?q=1&before=1999-01-01", ".empty h2"),
    "features": ("/features", ".card"),
    "feature": ("/feature/3?q=1", ".spread"),
    "compare": ("/compare?a=1&b=2", ".logic tbody tr"),
    "distributions": ("/compare?a=1&b=2&show=distributions", ".distribution"),
    "help": ("/help", ".keys"),
    "duplicates": ("/duplicates", ".lead"),
    "closer": ("/?q=1&image=2", "#lightbox .why"),
    "filter": ("/?q=1&folder=drawn", ".filters .filter"),
    "menu": ("/?q=1 and not like(2, 3)", ".tray.none .chip"),
    "crop": ("/?q=1", ".tray.all .chip"),
}


def open_in(page: Page, view: str) -> None:
    """Opens what has no address."""
    if view == "filter":
        page.wait(lambda: page.one("[data-item=filter]").click() is None)
        page.wait(lambda: page.all("#filter-tree .folder"))
    elif view in ("menu", "crop"):
        page.one(".tray.all .chip").click()
        page.one("#menu")
    if view == "crop":
        page.click("Choose a part")
        page.one("#crop-box")


@pytest.mark.slow
@pytest.mark.parametrize(("size", "theme"), [("wide", "light"), ("narrow", "dark")])
def test_axe_finds_no_serious_fault(address, screenshots, size, theme):
    faults = {}
    window = NARROW if size == "narrow" else WIDE
    with closing(Page(address, screenshots, window, touch=size == "narrow")) as page:
        page.go()
        page.run("localStorage.setItem('andornot-theme', arguments[0])", theme)
        for name, (path, sign) in VIEWS.items():
            page.go(path)
            page.wait(lambda sign=sign: page.all(sign), f"no {sign} in {name}")
            if size == "narrow" and name in ("groups", "menu", "crop"):
                page.one("#unfold").click()
            open_in(page, name)
            page.look(f"{name}-{size}-{theme}")
            time.sleep(0.5)  # colours fade in, and faded ones have less contrast
            axe = Axe(page.driver)
            axe.inject()
            for fault in axe.run()["violations"]:
                if fault["impact"] in ("serious", "critical"):
                    faults[name, fault["id"]] = [node["html"][:120] for node in fault["nodes"][:3]]
        check(page, BAD_REQUEST)
    assert faults == {}


# --- when something is not as it should be ---------------------------------------------------------------------------


def test_an_empty_gallery_says_how_to_fill_it(tmp_path, gallery, screenshots):
    with opened(Gallery.create(tmp_path / "empty", gallery.model), screenshots) as page:
        assert "No photos yet" in page.one("#main").text
        page.look("empty")
        for path in ("/features", "/compare", "/help"):
            page.go(path)
        check(page)


@pytest.mark.slow
def test_news_of_the_gallery_are_taken(tmp_path, scenes, gallery, screenshots):
    own, images, files = copied(scenes, gallery, tmp_path)
    with opened(own, screenshots) as page:
        page.wait(lambda: len(page.tiles()) == 6)
        shutil.copy(files[6], images)
        Gallery.open(own.folder).add(images, progress=False)
        page.wait(lambda: len(page.tiles()) == 7)
        assert page.one("#notices p").text == "The gallery has changed: it now has 7 photos."
        check(page)


@contextmanager
def away_and_back(own: Gallery, page: Page) -> Iterator[Callable[[], AbstractContextManager[object]]]:
    """A page whose server has just gone; what is given lets it run again."""
    with served(own) as client:
        page.address = address_of(client)
        page.go()
        page.first(6)
        # Not in the middle of a request: what is under way when a server stops may be told anything.
        answered = "return performance.getEntriesByType('resource').filter(e => /words|examples/.test(e.name)).length"
        page.wait(lambda: page.driver.execute_script(answered) >= 1)
    page.wait(lambda: "does not respond" in page.one("#trouble").text)
    yield lambda: command("--gallery", str(own.folder), "--port", page.address.rpartition(":")[2])
    check(page, "ERR_", "503 (Service Unavailable)")  # requests under way when a server stops


@pytest.mark.slow
def test_a_server_that_went_away_is_told_and_found_again(tmp_path, scenes, gallery, screenshots):
    own, _, _ = copied(scenes, gallery, tmp_path)
    with closing(Page("", screenshots)) as page, away_and_back(own, page) as started:
        page.look("gone")
        assert len(page.tiles()) == 6
        page.run("document.body.style.minHeight = '300vh'; scrollTo(0, innerHeight)")
        assert is_on_top(page, "#trouble")
        with started():
            page.wait(lambda: not page.driver.find_element("id", "trouble").is_displayed())
            page.choose(page.first(6)[0])
            page.wait(page.hits)


@pytest.mark.slow
def test_what_was_asked_while_the_server_was_away_is_answered_when_it_is_back(tmp_path, scenes, gallery, screenshots):
    own, _, _ = copied(scenes, gallery, tmp_path)
    with closing(Page("", screenshots)) as page, away_and_back(own, page) as started:
        page.type_formula("1 and not 2")
        page.press(Keys.ENTER)
        with started():
            page.wait(lambda: page.trays()["none"])
            page.wait_hits(found(own, "1 and not 2"))


@pytest.mark.slow
def test_the_drawings_stay_while_the_server_is_away_and_after(tmp_path, scenes, gallery, screenshots):
    own, _, _ = copied(scenes, gallery, tmp_path)
    with closing(Page("", screenshots)) as page, away_and_back(own, page) as started:
        name = page.tiles()[0]
        page.choose(name)  # which draws a chip, and shows the buttons "Undo" and "Clear"
        page.wait_trays(all=[name])
        page.one("#undo")
        page.look("gone-drawings")
        assert missing_drawings(page) == []
        with started():
            page.wait(page.hits)
            assert missing_drawings(page) == []


def is_on_top(page: Page, selector: str) -> bool:
    """Whether the middle of an element is in the window, and nothing lies on it."""
    return page.run(
        "const element = document.querySelector(arguments[0]);"
        "const { left, top, width, height } = element.getBoundingClientRect();"
        "return element.contains(document.elementFromPoint(left + width / 2, top + height / 2))",
        selector,
    )


def missing_drawings(page: Page) -> list[str]:
    """Which of the drawings in view have nothing to see."""
    seen = page.run(
        "return [...document.querySelectorAll('svg.icon')].filter((icon) => icon.checkVisibility())"
        "  .map((icon) => [icon.firstElementChild.getAttribute('href'), icon.getBBox().width])"
    )
    assert len(seen) > 5
    return [drawing for drawing, width in seen if width == 0]


def copied(scenes: Path, gallery: Gallery, folder: Path) -> tuple[Gallery, Path, list[Path]]:
    """A gallery of six images, their folder, and all files there are."""
    images = folder / "images"
    images.mkdir()
    files = sorted((scenes / "drawn").iterdir())
    for file in files[:6]:
        shutil.copy(file, images)
    own = Gallery.create(folder / "own", gallery.model)
    own.add(images, progress=False)
    return own, images, files
