"""What the page shows, in a real browser: answers, the start, an image looked at, filters, the help.

Answers of the server are made up where they are to be of a kind that small galleries do not give.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from browser import BAD_REQUEST, NARROW, Page, check
from selenium.webdriver.common.keys import Keys
from serving import address_of, served

from andornot.gallery import Gallery

WORDS = {
    "words": [
        {"word": word, "term": word, "group": group, "images": count, "share": 0.1}
        for word, group, count in (("cow", "animals", 1200), ("sea", "places", 7))
    ]
}
EXAMPLES = {
    "examples": [
        {
            "formula": "1 | 2",
            "sentence": "shows a cow and the sea",
            "hits": [{"id": number, "name": "x.jpg", "term": str(number), "version": ""} for number in (1, 2, 3)],
        }
    ]
}
FOLDERS = {
    "name": "",
    "folder": "",
    "images": 64,
    "folders": [
        {
            "name": "drawn",
            "folder": "drawn",
            "images": 61,
            "folders": [{"name": "may", "folder": "drawn/may", "images": 9, "folders": []}],
        },
        {"name": "more", "folder": "more", "images": 3, "folders": []},
    ],
}
NOTHING = {"words": []}
# The usual answers of a gallery that has no words.
USUAL = {
    "/api/words": NOTHING,
    "/api/examples": {"examples": []},
    "/api/folders": FOLDERS,
    "/api/definitions": {"definitions": []},
}
HITS = """
  const hits = [[5, 0.9], [6, 0.8], [7, 0.7], [8, 0.6], [9, 0.2], [10, 0.1]].map(([id, truth], place) => ({
    id, truth, width: 300, height: 200, name: `hit-${place}.jpg`, term: String(id), version: "", label: "", path: null,
    distance: 1 - truth,
    taken: "2024-05-31T18:00:00", taken_from: "file", is_weak: truth < 0.5, words: {}, why: [],
    strength: truth > 0.75 ? "strong" : truth < 0.5 ? "weak" : "maybe",
    boxes: place === 0 ? [{ term: "1", box: [0, 0.25, 0.5, 0.75] }, { term: "like(2, 3)", box: [0.5, 0, 1, 0.5] }] : [],
    stacked_on: { 1: 5, 3: 6 }[place] ?? null,
  }));
  const named = (id) => ({ name: String(id), id, upload: null, version: "", file: `${id}.jpg` });
  const names = [1, 2, 3].map(named);
  const tree = { op: "name", kind: "image", start: 0, end: 1, crop: null, ...names[0] };
  return { formula: "1", is_condition: false, terms: ["1"], names, tree, total: 64, hits, seconds: 0.002 };
"""


@contextmanager
def told(page: Page, answers: dict[str, object] | None = None, search: str = "") -> Iterator[None]:
    """The server's answers to some paths are these; `search` is a body of a function that makes that of a search."""
    source = f"""
      const answers = {json.dumps({**USUAL, **(answers or {})})};
      const search = {f"() => {{ {search} }}" if search else "null"};
      const real = window.fetch;
      window.asked = [];
      window.fetch = async (address, options) => {{
        const {{ pathname, search: given }} = new URL(address, location);
        window.asked.push(pathname + given);
        if (pathname === "/api/search" && search) return Response.json(search());
        if (pathname in answers) return Response.json(answers[pathname]);
        if (pathname === "/api/search" || pathname === "/api/images") {{
          const url = new URL(address, location);
          url.searchParams.delete("folder");
          return real(url, options);
        }}
        return real(address, options);
      }};"""
    fake = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        yield
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", fake)


@pytest.fixture
def hits(page) -> Iterator[Page]:
    """Six hits: the second and the fourth are nearly the first, the last two are weak."""
    with told(page, search=HITS):
        page.go("/?q=1")
        page.wait(lambda: "hit-0.jpg" in page.tiles())
        yield page


def focused(page: Page) -> str:
    return page.run("return document.activeElement.title")


def asked(page: Page, path: str) -> list[str]:
    return [one for one in page.run("return window.asked") if one.startswith(path)]


def shown(page: Page, selector: str) -> str:
    """How far an element can be seen."""
    return page.run("return getComputedStyle(document.querySelector(arguments[0])).opacity", selector)


# --- answers ---------------------------------------------------------------------------------------------------------


def test_hits_are_grouped_by_strength_and_the_percentage_is_on_demand(hits):
    notes = hits.run("return [...document.querySelectorAll('.note b')].map((note) => note.textContent)")
    assert notes == ["90 %", "70 %", "20 %", "10 %"]
    headings = hits.run(
        "return [...document.querySelectorAll('.group-heading h2')].map((e) => e.innerText.split('\\n')[0])"
    )
    assert headings == ["Strong matches 1", "Maybe 1", "Weak matches 2"]
    tops = dict(
        hits.run("return [...document.querySelectorAll('.tile')].map((e) => [e.title, e.getBoundingClientRect().top])")
    )
    assert tops["hit-0.jpg"] < tops["hit-2.jpg"] < tops["hit-4.jpg"] == tops["hit-5.jpg"]
    hits.run("document.querySelector('.tile').focus()")
    hits.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert focused(hits) == "hit-5.jpg"
    hits.press(Keys.ARROW_UP, Keys.HOME)
    assert focused(hits) == "hit-0.jpg"
    assert "match 10 %, Weak matches" in hits.tile("hit-5.jpg").get_attribute("aria-label")
    hits.actions().move_to_element(hits.one("#top")).perform()
    hits.run("document.activeElement.blur()")
    hits.wait(lambda: shown(hits, ".note") == "0")
    hits.look("groups")
    hits.run("scrollTo(0, 0)")
    hits.click("Names and percentages")
    hits.wait(lambda: shown(hits, ".note") == "1")


def test_copies_lie_in_a_stack_that_opens_and_folds(hits):
    assert hits.tiles() == ["hit-0.jpg", "hit-2.jpg", "hit-4.jpg", "hit-5.jpg"]
    assert "2 near duplicates hidden" in hits.one(".facts").text
    hits.click("Show 2 near duplicates")
    everything = ["hit-0.jpg", "hit-1.jpg", "hit-3.jpg", "hit-2.jpg", "hit-4.jpg", "hit-5.jpg"]
    hits.wait(lambda: hits.tiles() == everything)
    assert len(hits.all(".is-inside")) == 2
    hits.look("stack")
    hits.click("Hide 2 near duplicates")
    hits.wait(lambda: len(hits.tiles()) == 4)
    hits.run("document.querySelector('.tile').focus()")
    hits.press("s")
    hits.wait(lambda: hits.tiles() == everything)
    assert focused(hits) == "hit-0.jpg"
    hits.press("s")
    hits.wait(lambda: len(hits.tiles()) == 4)


def test_frames_say_where_each_term_was_found(hits):
    frames = '.tile[title="hit-0.jpg"] .frames'
    hits.wait(lambda: hits.all(frames))
    labels = hits.run(
        "return [...document.querySelectorAll(arguments[0] + ' .found')].map((e) => e.textContent)", frames
    )
    assert labels == ["1.jpg", "these 2"]
    assert shown(hits, frames) == "0"
    hits.actions().move_to_element(hits.tile("hit-0.jpg")).perform()
    hits.wait(lambda: shown(hits, frames) == "1")
    hits.actions().move_to_element(hits.one("#top")).perform()
    hits.wait(lambda: shown(hits, frames) == "0")
    hits.click("Show where")
    hits.wait(lambda: shown(hits, frames) == "1")
    assert "frames=1" in hits.driver.current_url
    assert hits.button("Show where").get_attribute("aria-pressed") == "true"
    hits.look("where")
    hits.click("Show where")
    hits.wait(lambda: shown(hits, frames) == "0")


def test_labels_of_frames_do_not_cover_each_other(page):
    boxes = [[0.1, 0.1, 0.9, 0.9], [0.12, 0.12, 0.8, 0.8], [0.1, 0.11, 0.9, 0.88], [0.11, 0.1, 0.9, 0.9]]
    rectangles = page.run_async(
        "const { drawFrames, separateLabels } = await import('/static/js/frames.js');"
        "const places = given[0].map((box, colour) => ({ box, label: `label ${colour}`, colour }));"
        "const frames = drawFrames(places); document.getElementById('stage').append(frames); separateLabels(frames);"
        "return [...frames.querySelectorAll('.found > span')].filter((e) => !e.hidden)"
        "  .map((e) => e.getBoundingClientRect()).map((r) => [r.left, r.top, r.right, r.bottom])",
        boxes,
    )
    assert len(rectangles) == 4
    for number, one in enumerate(rectangles):
        for other in rectangles[:number]:
            assert one[0] >= other[2] or other[0] >= one[2] or one[1] >= other[3] or other[1] >= one[3]


def test_plus_and_minus_are_on_every_photo(page):
    with told(page):
        page.go()
        a, _, c, d = page.first(4)
        page.actions().move_to_element(page.tile(a)).perform()
        page.wait(lambda: page.tile(a).find_element("css selector", "[data-offer=more]").click() is None)
        page.wait(lambda: a in page.formula)
        page.wait(page.hits)
        page.go("/?all=1&q=1")
        page.run("document.querySelector(`.tile[title='${arguments[0]}']`).focus()", c)
        page.press("m")
        page.wait(lambda: c in page.formula)
        page.run("document.querySelector(`.tile[title='${arguments[0]}']`).focus()", d)
        page.press("k")
        page.wait(lambda: d in page.formula)


def test_not_this_one_is_left_out_and_brought_back_and_may_become_a_kind(hits):
    hits.choose("hit-4.jpg", "not")
    hits.wait(lambda: "hit-4.jpg" not in hits.tiles())
    hits.wait(lambda: "1 left out" in hits.one(".left-out").text)
    hits.choose("hit-5.jpg", "not")
    hits.wait(lambda: "2 left out" in hits.one(".left-out").text)
    assert hits.formula == "1"
    hits.look("left-out")
    hits.click("undo")
    hits.wait(lambda: "hit-5.jpg" in hits.tiles())
    hits.choose("hit-5.jpg", "not")
    hits.wait(lambda: "hit-5.jpg" not in hits.tiles())
    hits.run("[...document.querySelectorAll('#notices button')].at(-1).click()")  # Not this kind
    hits.wait_formula("1 and not 10")
    assert "exclude=9" in hits.driver.current_url


def test_more_hits_come_as_one_scrolls_to_the_end(page, gallery):
    page.go("/?q=1")
    page.wait(page.hits)
    names = [Path(hit.path).name for hit in gallery.search("1", top=100)]
    seen: set[str] = set()

    def scrolled() -> bool:
        page.run("scrollBy(0, innerHeight / 2)")
        seen.update(page.tiles())
        return seen >= set(names)

    page.wait(scrolled)
    page.wait(lambda: not any(e.text.endswith("+") for e in page.all(".group-heading .count")))


# --- the lightbox ----------------------------------------------------------------------------------------------------


def test_a_click_opens_the_photo_and_arrows_lead_through_the_results(page):
    page.go("/?q=1")
    page.wait(page.hits)
    first, second, third = page.tiles()[:3]
    page.open(first)
    size = page.run(
        "const photo = document.getElementById('lightbox-photo');"
        "const { width, height } = photo.getBoundingClientRect();"
        "return [width / height, photo.image.width / photo.image.height]"
    )
    assert size[0] == pytest.approx(size[1], rel=0.01)
    assert not page.all(".arrow[data-step='-1']:not([hidden])")
    page.press(Keys.ARROW_RIGHT)
    page.wait(lambda: page.opened() == second)
    page.click("Next photo")
    page.wait(lambda: page.opened() == third)
    page.click("Previous photo")
    page.wait(lambda: page.opened() == second)
    page.look("lightbox")
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.is_open("lightbox"))
    page.wait(lambda: focused(page) == second)
    page.driver.back()  # to the start, and not to a photo that was closed
    page.wait(lambda: "image=" not in page.driver.current_url and "q=1" not in page.driver.current_url)
    assert not page.is_open("lightbox")


def test_a_query_made_in_the_lightbox_closes_it_and_back_does_not_open_it(page):
    page.go("/?q=1")
    page.wait(page.hits)
    page.open(page.tiles()[1])
    page.click("Not this kind")
    page.wait(lambda: "and not" in page.formula)
    page.wait(lambda: not page.is_open("lightbox"))
    page.driver.back()
    page.wait_formula("1")
    assert not page.is_open("lightbox")


def test_a_finger_taps_to_open_and_swipes_to_the_next(phone):
    phone.go("/?q=1")
    phone.wait(phone.hits)
    first, second = phone.tiles()[:2]
    phone.tap(phone.tile(first))
    phone.wait(lambda: phone.opened() == first)
    for kind, x in (("touchStart", 300), ("touchMove", 180), ("touchMove", 100), ("touchEnd", None)):
        points = [] if x is None else [{"x": x, "y": 200}]
        phone.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    phone.wait(lambda: phone.opened() == second)
    phone.look("lightbox-narrow")
    phone.driver.back()
    phone.wait(lambda: not phone.is_open("lightbox"))


def test_rows_fill_the_width_and_crop_nothing(page):
    page.go("/")
    page.first(8)
    rows = page.run(
        "return [...document.querySelectorAll('#main .row')].slice(0, 2).map((row) => ["
        "  row.lastElementChild.getBoundingClientRect().right - row.getBoundingClientRect().right,"
        "  [...row.children].map(({ image, clientWidth, clientHeight }) =>"
        "    clientWidth / clientHeight / (image.width / image.height))])"
    )
    for beyond, shapes in rows:
        assert abs(beyond) < 2
        assert shapes == pytest.approx([1] * len(shapes), rel=0.03)


def test_photos_sorted_by_date_have_headings_of_months(page):
    months = {"months": [{"month": "2024-05", "images": 10}, {"month": "2023-12", "images": 54}]}
    with told(page, {"/api/timeline": months}):
        page.go("/?order=-taken")
        page.first(4)
        page.wait(lambda: page.all(".group-heading"))
        assert page.one(".group-heading").text.split() == ["May", "2024", "10"]
        page.one(".timeline").send_keys("December")
        page.wait(lambda: any("December 2023" in heading.text for heading in page.all(".group-heading")))


def test_a_typed_query_is_parsed_and_searched_by_one_request(page):
    with told(page):
        page.go()
        page.type_formula("1 and not 2")
        page.wait_trays(all=[page.tiles()[0]], none=[page.tiles()[1]])
        page.wait(page.hits)
        page.run_async("return new Promise((resolve) => setTimeout(resolve, 300))")
        assert len([one for one in asked(page, "/api/search") if "1+and+not+2&" in one and "offset" not in one]) == 1
        assert asked(page, "/api/formula") == []


def test_an_old_answer_is_dimmed_while_the_query_has_a_mistake(window):
    with told(window):
        window.go("/?q=1")
        window.wait(window.hits)
        before = window.hits()
        window.type_formula("1 & | x")
        window.wait(lambda: window.all(".grid.is-stale"))
        assert window.hits()[: len(before)] == before
        assert "mistake" in window.one(".facts").text
        window.look("stale")
        window.type_formula("1")
        window.wait(lambda: not window.all(".grid.is-stale"))
    check(window)


# --- the start -------------------------------------------------------------------------------------------------------


def test_the_start_offers_words_examples_and_an_image_of_ones_own(page):
    with told(page, {"/api/words": WORDS, "/api/examples": EXAMPLES}):
        page.go()
        page.wait(lambda: len(page.all(".start .word")) == 2)
        assert [section.text.split() for section in page.all(".start section")] == [
            ["Animals", "cow", "~1,200"],
            ["Places", "sea", "~7"],
        ]
        assert "choose a file" in page.one(".start .own").text
        page.first(4)  # and below it the gallery
        page.look("start")
        assert len(page.all(".start .examples img")) == 3
        page.one(".start .examples a").click()
        page.wait_formula("1 | 2")
        page.wait(page.hits)
        assert not page.all(".start:not([hidden])")
        page.driver.back()
        page.one(".start .examples a")
        page.type_formula("1 & | x")  # a mistake leaves the words and examples where they are
        page.wait(lambda: page.all("#formula-copy mark"))
        assert len(page.all(".start:not([hidden]) .word")) == 2


def test_a_gallery_without_words_starts_kindly(page):
    with told(page):
        page.go()
        page.wait(lambda: "of your own" in page.one(".start").text)
        assert not page.all(".start .word")


def test_an_empty_gallery_is_kind_everywhere(tmp_path, gallery, screenshots):
    empty = Gallery.create(tmp_path / "empty", gallery.model)
    with served(empty) as client, closing(Page(address_of(client), screenshots)) as page, told(page):
        for path, words in {"/": "No photos yet", "/features": "empty", "/compare": "nothing to compare"}.items():
            page.go(path)
            page.wait(lambda words=words: words in page.one("#main").text)
        assert not page.all(".card")
        check(page)


# --- the panel of a photo --------------------------------------------------------------------------------------------


IMAGE = {
    "id": 5,
    "name": "hit-0.jpg",
    "term": "5",
    "version": "",
    "label": "drawn",
    "taken": "2024-05-31T18:00:00",
    "taken_from": "camera",
    "path": "/home/me/hit-0.jpg",
    "width": 64,
    "height": 48,
    "features": [{"feature": 563, "degree": 0.8, "shown_by": []}],
    "words": [
        {"word": "cow", "term": "cow", "truth": 0.9},
        {"word": "polar bear", "term": '"polar bear"', "truth": 0.4},
    ],
}
WHY = HITS.replace(
    "return {",
    """
  const shown = (id) => ({ id, name: `${id}.jpg`, term: String(id), version: "" });
  const reason = (feature, name, id) => ({ feature, name, contribution: 0.1, shown_by: [shown(id)] });
  hits[0].why = [reason(563, "cow", 1), reason(564, "", 2), reason(565, "cow", 3)];
  return {""",
)


def test_why_is_said_in_words_and_numbers_only_under_features(page):
    with told(page, {"/api/images/5": IMAGE}, WHY):
        page.go("/?q=1&image=5")
        page.wait(lambda: "Why this photo" in page.one("#lightbox").text)
        text = page.one("#lightbox").text
        assert "Strong match: 90 %" in text
        assert "563" not in text
        rows = [row.text for row in page.all("#lightbox .reasons li")]
        assert rows == ["cow", "unnamed feature"]
        assert len(page.all("#lightbox .reasons img")) == 3
        assert "Near duplicates" in text
        page.look("why-in-words")
        page.one("#lightbox summary").click()
        page.wait(lambda: "Feature 563" in page.one("#lightbox").text)
        page.click("hit-1.jpg")
        page.wait(lambda: "image=6" in page.driver.current_url)


def test_an_image_tells_its_tags_and_its_path_and_what_can_be_done(page):
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    with told(page, {"/api/images/5": IMAGE}, HITS):
        page.go("/?q=1&image=5")
        page.wait(lambda: "/home/me/hit-0.jpg" in page.one("#lightbox").text)
        page.click("Copy path")
        page.wait(lambda: "copied" in page.one("#notices p").text)
        assert page.run_async("return navigator.clipboard.readText()") == "/home/me/hit-0.jpg"
        assert page.button("Open full size").get_attribute("href").endswith("/api/images/5/image")
        assert page.button("Search for a part")
        words = lambda: [word.text.split() for word in page.all("#lightbox .word")]  # noqa: E731
        assert words() == [["cow", "90", "%"], ["polar", "bear", "40", "%"]]
        page.click("Not this kind")
        page.wait(lambda: not page.is_open("lightbox"))
        page.wait(lambda: "5" in page.formula)
        page.go("/?q=1&image=5")
        page.wait(lambda: len(words()) == 2 and page.all("#lightbox .word")[1].click() is None)
        page.wait(lambda: "polar bear" in page.formula)


# --- filters ---------------------------------------------------------------------------------------------------------


def test_filters_of_the_address_are_chips_that_are_removed(page):
    with told(page):
        page.go("/?q=1&after=2000-01-01&file_dates=1&folder=drawn")
        chips = lambda: [chip.text for chip in page.all(".filters .filter")]  # noqa: E731
        page.wait(lambda: chips() == ["Folder: drawn", "From 1 January 2000", "Including file dates", "All filters"])
        page.look("filters")
        page.click("Remove: From 1 January 2000")
        page.wait(lambda: "after" not in page.driver.current_url)
        page.click("Remove: All filters")
        page.wait(lambda: not page.all(".filters:not([hidden])"))
        assert "folder" not in page.driver.current_url
        page.driver.back()
        page.wait(lambda: chips()[0] == "Folder: drawn")


def test_folders_are_a_tree_with_counts(page):
    with told(
        page,
        {
            "/api/definitions": {
                "definitions": [{"name": "sunset", "term": "sunset", "kind": "term", "images": 31, "hits": []}]
            }
        },
    ):
        page.go("/?q=1")
        page.click("Filter")
        page.wait(lambda: len(page.all("#filter-tree .folder")) == 2)
        assert page.one("#filter-tree .folder").text.split() == ["drawn", "61"]
        page.click("Folders in drawn")
        page.look("folders")
        page.wait(lambda: len(page.all("#filter-tree .folder")) == 3)
        page.all("#filter-tree .folder")[1].click()
        page.wait(lambda: "folder=drawn%2Fmay" in page.driver.current_url)
        page.wait(lambda: any("folder=drawn%2Fmay" in one for one in asked(page, "/api/search")))
        assert page.one("#filter-tree [aria-pressed=true]").text.split()[0] == "may"
        assert "sunset" in page.one("#filter-names").text
        page.press(Keys.ESCAPE)
        page.wait(lambda: not page.driver.find_element("id", "filter-panel").is_displayed())
        assert page.run("return document.activeElement.dataset.item") == "filter"


# --- when something is not as it should be ---------------------------------------------------------------------------


def test_files_that_could_not_be_read_are_listed_behind_their_number(page):
    gallery = page.run_async("return (await fetch('/api/gallery')).json()")
    files = [{"name": "bad.jpg", "path": None, "reason": "it ends too early"}]
    with told(page, {"/api/gallery": {**gallery, "broken": 1}, "/api/broken": {"total": 1, "files": files}}):
        page.go()
        page.click("1 could not be read")
        page.wait(lambda: "it ends too early" in page.one("#broken").text)
        assert "bad.jpg" in page.one("#broken").text
        page.look("broken")
        page.press(Keys.ESCAPE)
        page.wait(lambda: not page.driver.find_element("id", "broken").is_displayed())


def test_a_refused_camera_is_told_once_and_rightly(page):
    page.run("navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError'));")
    page.click("Camera")
    page.wait(lambda: page.all("#notices p"))
    assert [notice.text for notice in page.all("#notices p")] == [
        "The browser blocked the camera. You can allow it next to the address bar."
    ]


def test_the_65th_image_does_not_enter(page):
    with told(page):
        page.go(f"/?all=1&q=like({','.join(str(number) for number in range(1, 65))})")
        page.wait(lambda: page.run_async("const { size } = await import('/static/js/query.js'); return size()") == 64)
        before = page.formula
        page.choose(page.first(1)[0])
        page.wait(lambda: "at most 64" in page.one("#notices p").text)
        assert page.formula == before


def test_icons_are_there_when_the_server_is_not(page):
    page.wait(lambda: page.all("#icon-view"))
    drawn = page.run_async("const { icon } = await import('/static/js/dom.js'); return icon('view').innerHTML")
    assert 'href="#icon-view"' in drawn


def test_an_upload_that_was_forgotten_is_explained(window):
    with told(window):
        window.go("/?q=upload-0123456789abcdef")
        window.wait(lambda: "Please add it again" in window.one("#main").text)
    check(window, BAD_REQUEST)


def test_compare_says_what_can_be_done(page):
    page.go("/compare")
    page.wait(lambda: "Click two photos here" in page.one("#main").text)
    page.one(".choices button").click()
    page.wait(lambda: "Click the other photo here" in page.one("#main").text)
    page.all(".choices button")[1].click()
    page.wait(lambda: page.all(".logic tbody tr"))


def test_the_help_is_one_screen(page):
    page.go("/help")
    headings = [heading.text for heading in page.all(".help h2")]
    assert headings == ["Words", "Photos", "Strong, maybe, weak", "NOT", "Albums", "Keyboard", "For programs"]
    assert page.run("return document.documentElement.scrollHeight <= innerHeight")
    assert "Feature" not in page.one(".help").text
    page.look("help")


# --- by touch --------------------------------------------------------------------------------------------------------


def test_a_stack_and_a_filter_work_by_touch_and_nothing_is_too_wide(phone):
    with told(phone, {"/api/words": WORDS, "/api/examples": EXAMPLES}, HITS):
        phone.go("/?q=1&after=2000-01-01")
        phone.tap_on("Show 2 near duplicates")
        phone.wait(lambda: len(phone.tiles()) == 6)
        phone.tap_on("Remove: From 1 January 2000")
        phone.wait(lambda: "after" not in phone.driver.current_url)
        phone.wait(lambda: phone.tap(phone.one("[data-item=filter]")) is None)
        phone.one("#filter-panel")
        phone.look("narrow-filter")
        for path in ("/", "/?q=1&folder=a-very-long-folder/with-a-very-long-name-inside", "/?q=1&image=5", "/help"):
            phone.go(path)
            assert phone.run("return document.documentElement.scrollWidth") <= NARROW[0], path


def test_a_phone_shows_plus_and_minus_and_the_first_photo_in_the_first_quarter(phone):
    phone.go("/?q=1")
    phone.wait(phone.hits)
    first = phone.run("return document.querySelector('#main .tile').getBoundingClientRect().top")
    assert first < NARROW[1] / 4
    assert {shown(phone, ".offer button"), shown(phone, ".offer")} == {"1"}
    assert phone.run("return document.querySelector('.heading').clientHeight") < 60  # one row of controls
