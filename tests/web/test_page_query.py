"""What is asked on the page: the line, the trays, examples, blends, crops, undo; by mouse, by key and by finger."""

import time
from pathlib import Path

import pytest
from browser import Page, check
from selenium.webdriver.common.keys import Keys

from andornot.concepts.nouns import with_article, wordnet_nouns
from andornot.gallery import Gallery


def found(gallery: Gallery, formula: str, top: int = 4) -> list[str]:
    return [Path(hit.path).name for hit in gallery.search(formula, top=top)]


def undo_by_key(page: Page) -> None:
    page.actions().key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform()


def everything(page: Page, text: str) -> list[str]:
    """Asks for a text; the names of the first images of the gallery, to add."""
    page.type_formula(text)
    page.wait(page.hits)
    page.click("All photos")
    page.wait(lambda: not page.hits(), "the hits are still shown")
    return page.first(8)


# --- images that are clicked ---------------------------------------------------------------------------------------


def test_a_second_image_is_an_example_of_the_same_thing_and_asks_once(page):
    a, b, c = everything(page, "1")[1:4]
    page.click("Clear")
    page.choose(a)
    page.wait_formula(a)
    assert not page.driver.find_element("id", "question").is_displayed()
    page.click("All photos")
    page.choose(b)
    page.wait_formula(f"like({a}, {b})")
    assert "Same thing, or both together?" in page.one("#question").text
    page.look("question")
    page.click("Same thing")
    page.wait(lambda: not page.driver.find_element("id", "question").is_displayed())
    page.choose(c)
    page.wait_formula(f"like({a}, {b}, {c})")
    assert not page.driver.find_element("id", "question").is_displayed()


def test_both_together_makes_each_count_and_is_remembered(page):
    a, b, c = everything(page, "1")[1:4]
    page.click("Clear")
    page.choose(a)
    page.wait_formula(a)
    page.click("All photos")
    page.choose(b)
    page.click("Both together")
    page.wait_formula(f"{a} and {b}")
    page.choose(c)
    page.wait_formula(f"{a} and {b} and {c}")
    assert not page.driver.find_element("id", "question").is_displayed()


def test_a_finger_is_asked_too(phone):
    a, b = phone.first_below(2)
    for name in (a, b):
        phone.choose(name)
        phone.wait(lambda name=name: name in phone.formula)
        if name == a:
            phone.tap_on("All photos")
            phone.first_below(2)
    phone.look("question-narrow")
    phone.tap_on("Both together")
    phone.wait_formula(f"{a} and {b}")


# --- trays and chips -------------------------------------------------------------------------------------------------


def test_chips_are_dragged_between_trays_and_empty_trays_are_folded(page):
    a, b, c = everything(page, "1")[1:4]
    page.click("Clear")
    assert all("is-folded" in tray.get_attribute("class") for tray in page.all(".is-root > .tray"))
    page.drag(page.tile(a), ".tray.all")
    page.wait_trays(all=[a])
    page.click("All photos")
    page.drag(page.tile(b), ".tray.none")
    page.wait_formula(f"{a} and not {b}")
    page.drag(page.chip(b), ".tray.any")
    page.drag(page.tile(c), ".tray.any > .tray-heading")
    page.wait_formula(f"{a} and ({b} or {c})")
    assert "is-folded" in page.one(".tray.none").get_attribute("class")


def test_an_opened_tray_takes_what_is_clicked(page):
    a, b = everything(page, "1")[1:3]
    page.click("Clear")
    page.choose(a)
    page.wait_formula(a)
    page.click("All photos")
    page.click("None of these")
    page.choose(b)
    page.wait_formula(f"{a} and not {b}")
    page.click("Photos go here")
    page.wait(lambda: page.all(".here[aria-pressed=true]") == [])


def test_chips_are_moved_weighed_and_removed_by_key(page):
    a, b = page.first(2)
    page.type_formula(f"{a} and {b}")
    page.wait_trays(all=[a, b])
    page.chip(a).send_keys("n")
    page.wait_formula(f"{b} and not {a}")
    page.chip(a).send_keys("+")
    page.wait_formula(f"{b} and not 1.4*{a}")
    page.press("-", "o")
    page.wait_trays(all=[b], any=[a])
    page.press(Keys.DELETE)
    page.wait_formula(b)


def test_a_weight_is_chosen_in_the_menu_and_written_only_if_it_says_something(page):
    [a] = page.first(1)
    page.type_formula(a)
    page.wait_trays(all=[a])
    page.chip(a).click()
    slider = page.one("#menu [type=range]")
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    page.wait_formula(f"2*{a}")
    slider.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    page.wait_formula(a)


def test_an_image_dropped_on_another_is_blended_with_it(page, gallery):
    a, b = page.first(2)
    page.type_formula(f"{a} and {b}")
    page.wait_trays(all=[a, b])
    page.actions().drag_and_drop(page.chip(b), page.chip(a)).perform()
    page.wait_formula(f"{a} | {b}")
    assert len(page.all(".operators button")) == 3
    page.click("Common: only what they share")
    page.wait_formula(f"{a} & {b}")
    page.click("Difference: the first without the others")
    page.wait_formula(f"{a} - {b}")
    page.wait_hits(found(gallery, f"{a} - {b}"))
    page.look("blend")


def test_blends_and_examples_are_made_and_taken_apart_by_the_menu(phone):
    a, b = phone.first_below(2)
    phone.type_formula(f"{a} and {b}")
    phone.wait_trays(all=[a, b])
    phone.wait(phone.hits)
    phone.tap(phone.one("#unfold"))
    phone.tap(phone.chip(b))
    phone.tap_on(f"Blend with {a}")
    phone.wait_formula(f"{a} | {b}")
    phone.tap(phone.one(".chip.blend"))
    phone.tap_on("Examples of the same thing")
    phone.wait_formula(f"like({a}, {b})")
    phone.tap(phone.one(".chip.like"))
    phone.look("menu-narrow")
    phone.tap_on("Different things: require all")
    phone.wait_formula(f"{a} and {b}")
    phone.tap(phone.chip(b))
    phone.tap_on("Move to “None of these”")
    phone.wait_formula(f"{a} and not {b}")


def test_old_addresses_are_one_blend(page, gallery):
    a, b, c = page.first(3)
    text = f"({a} | {b}) - {c}"
    page.go(f"/?q={text.replace(' ', '%20')}")
    page.wait(lambda: page.all(".tray.all .chip.blend"))
    page.wait_hits(found(gallery, text))
    assert page.formula == text


def test_what_was_done_is_undone(page):
    a, b = page.first(2)
    page.type_formula(f"{a} and {b}")
    page.wait_trays(all=[a, b])
    page.chip(b).send_keys(Keys.DELETE)
    page.wait_formula(a)
    page.click("Undo")
    page.wait_formula(f"{a} and {b}")
    page.wait_trays(all=[a, b])
    undo_by_key(page)
    page.wait_formula("")
    page.driver.back()
    page.wait_formula(f"{a} and {b}")


# --- the line --------------------------------------------------------------------------------------------------------


def test_names_are_completed_by_key_and_by_mouse(page):
    [a] = page.first(1)
    page.press("/")
    page.press(*a[:4])
    page.wait(lambda: page.all("#completions [role=option]"))
    field = page.one("#formula")
    assert field.get_attribute("aria-expanded") == "true"
    page.press(Keys.ARROW_DOWN)
    chosen = page.one("#completions [aria-selected=true]")
    assert field.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    page.look("completion")
    page.press(Keys.TAB)
    page.wait(lambda: page.trays()["all"])
    assert page.run("return document.activeElement.id") == "formula"
    page.press(*" and ", *a[:4])
    page.wait(lambda: page.one("#completions [role=option]").click() is None)  # drawn anew as one types
    page.wait(lambda: len(page.trays()["all"]) == 2)
    page.press(*" and ", *a[:4])
    page.wait(lambda: page.all("#completions [role=option]"))
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.driver.find_element("id", "completions").is_displayed())
    page.run("document.getElementById('formula').value = ''")


def test_a_completion_replaces_what_was_typed_since_it_was_offered(page):
    [a] = page.first(1)
    page.press("/", *a[:3])
    page.wait(lambda: page.all("#completions [role=option]"))
    page.run("document.getElementById('formula').value = arguments[0]", a[:5])
    name = page.run("return document.querySelector('#completions .label').textContent")
    page.run("document.querySelector('#completions [role=option]').click()")
    page.wait_formula(name)


def test_no_list_comes_up_over_the_answers(page):
    [a] = page.first(1)
    page.one("#formula").send_keys(a + Keys.ENTER)
    page.wait(page.hits)
    page.run_async("return new Promise((resolve) => setTimeout(resolve, 300))")
    assert not page.driver.find_element("id", "completions").is_displayed()


def test_plain_words_show_the_formula_that_they_became_which_can_be_edited(page):
    a, b = page.first(2)
    page.type_formula("1 without 2")
    page.wait_trays(all=[a], none=[b])
    page.wait(lambda: page.one("#understood").text.split() == ["Understood", "as", "1", "and", "not", "2"])
    assert page.formula == "1 without 2"
    page.look("understood")
    page.click("1 and not 2")
    page.wait_formula("1 and not 2")
    assert page.run("return document.activeElement.id") == "formula"
    page.wait(lambda: not page.driver.find_element("id", "understood").is_displayed())


def test_things_side_by_side_in_a_formula_are_joined_by_one_key(window):
    window.go()
    window.type_formula("(1 | 2) 3")
    window.wait(lambda: "Join words with and, or, not." in window.one("#formula-error").text)
    assert window.button("(1 | 2) and 3")
    window.look("side-by-side")
    window.press(Keys.ENTER)
    window.wait_formula("(1 | 2) and 3")
    check(window)


@pytest.mark.parametrize("kind", ["", "image:", "Image : "])
def test_what_is_not_known_is_marked_and_offers_the_nearest(window, kind):
    window.go()
    [name] = window.first(1)
    window.type_formula(f'1 and {kind}"x{name}"')
    window.press(Keys.ESCAPE)
    window.wait(lambda: "Unknown word or file name." in window.one("#formula-error").text)
    assert window.run("return document.querySelector('#formula-copy mark').textContent") == f'{kind}"x{name}"'
    window.wait(lambda: window.all("#formula-error .corrections button"))
    nearest = window.all("#formula-error .corrections button")[0]
    nearest.click()
    window.wait(lambda: len(window.trays()["all"]) == 2)
    assert window.run("return document.getElementById('formula').value") == f"1 and {kind}{name}"
    check(window)


def test_the_query_reads_as_a_sentence(page):
    a, b, c, d = page.first(4)
    page.type_formula(f"{a} and not {b} and not {c}")
    page.wait(lambda: page.one("#sentence").text == f"Photos that are like {a}, not like these 2")
    page.type_formula(f"like({a}, {b}) and ({c} or {d})")
    page.wait(lambda: page.one("#sentence").text == f"Photos that are like these 2 and are like {c} or are like {d}")
    told = page.run_async(
        "const { describe } = await import('/static/js/sentence.js');"
        "const word = (file) => ({ kind: 'word', term: file, file });"
        "const like = { kind: 'like', items: [word('x'), word('y')] };"
        "return describe({ kind: 'group', all: [word('dog'), word('sofa')], any: [], none: [like] })"
    )
    assert told == "Photos that show a dog and a sofa, not like these 2"


def test_the_page_gives_all_nouns_the_articles_that_the_server_gives_them(page):
    nouns = [*wordnet_nouns()]
    told = page.run_async(
        "const { withArticle } = await import('/static/js/sentence.js'); return given[0].map(withArticle)", nouns
    )
    assert told == [with_article(noun) for noun in nouns]


# --- crops -----------------------------------------------------------------------------------------------------------


def open_crop(page: Page, name: str) -> None:
    page.type_formula(name)
    page.wait_trays(all=[name])
    page.chip(name).click()
    page.click("Choose a part")
    page.wait(lambda: page.run("return document.querySelector('#crop-image img').naturalWidth"))


def test_a_box_is_drawn_by_mouse(page, gallery):
    [name] = page.first(1)
    open_crop(page, name)
    image = page.one("#crop-image")
    across, down = image.size["width"], image.size["height"]
    by = page.actions().move_to_element_with_offset(image, round(-0.45 * across), round(-0.45 * down)).click_and_hold()
    by.move_by_offset(round(0.5 * across), round(0.6 * down)).release().perform()
    page.look("crop")
    page.click("Search for this part")
    page.wait(lambda: page.formula.startswith(f"{name}["))
    edges = [float(edge) for edge in page.formula.removeprefix(f"{name}[").removesuffix("]").split(", ")]
    assert edges == pytest.approx([0.05, 0.05, 0.55, 0.65], abs=0.02)
    page.wait_trays(all=[f"{name} (part)"])
    assert page.all(".chip canvas")
    page.wait_hits(found(gallery, page.formula))


def test_a_box_that_is_drawn_at_the_edge_is_not_empty(page):
    [name] = page.first(1)
    open_crop(page, name)
    image = page.one("#crop-image")
    corner = (round(0.485 * image.size["width"]), round(0.485 * image.size["height"]))
    by = page.actions().move_to_element_with_offset(image, *corner).click_and_hold()
    by.move_by_offset(20, 20).release().perform()
    page.click("Search for this part")
    page.wait_formula(f"{name}[0.96, 0.96, 1, 1]")


def test_a_box_is_moved_and_sized_by_key_and_by_number(page):
    [name] = page.first(1)
    open_crop(page, name)
    page.press(Keys.ARROW_LEFT, Keys.ARROW_UP)
    page.actions().key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).perform()
    page.click("Search for this part")
    page.wait_formula(f"{name}[0.23, 0.23, 0.75, 0.73]")
    page.one(".chip.image").click()
    page.click("Choose another part")
    page.write(page.one("[data-edge='0']"), "10" + Keys.TAB)
    page.click("Search for this part")
    page.wait_formula(f"{name}[0.1, 0.23, 0.75, 0.73]")
    page.one(".chip.image").click()
    page.click("Use the whole photo")
    page.wait_formula(name)


def test_a_box_is_drawn_by_finger(phone):
    [name] = phone.first_below(1)
    phone.type_formula(name)
    phone.wait_trays(all=[name])
    phone.wait(phone.hits)
    phone.tap(phone.one("#unfold"))
    phone.tap(phone.chip(name))
    phone.tap_on("Choose a part")
    phone.wait(lambda: phone.run("return document.querySelector('#crop-image img').naturalWidth"))
    place = phone.run("return document.getElementById('crop-image').getBoundingClientRect().toJSON()")
    at = lambda x, y: [{"x": place["x"] + x * place["width"], "y": place["y"] + y * place["height"]}]  # noqa: E731
    for kind, points in (
        ("touchStart", at(0.1, 0.1)),
        ("touchMove", at(0.3, 0.4)),
        ("touchMove", at(0.5, 0.9)),
        # A finger that lets go while it moves flings, and the next touch only stops that.
        ("touchMove", at(0.5, 0.9)),
        ("touchEnd", []),
    ):
        phone.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        time.sleep(0.15)
    phone.look("crop-narrow")
    phone.tap_on("Search for this part")
    phone.wait_formula(f"{name}[0.1, 0.1, 0.5, 0.9]")
