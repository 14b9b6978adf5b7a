"""A real browser: headless Chromium, driven by selenium."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import JavascriptException, StaleElementReferenceException, WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")

WIDE = (1400, 900)
NARROW = (360, 740)
BAD_REQUEST = " 400 (Bad Request)"
_PATIENCE = 30.0
# In the page, because to ask for each button's name from here takes a second where there are many.
_FIND_BUTTON = """
  const isSeen = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const namesOf = (one) => [one.innerText.trim(), one.ariaLabel ?? (one.innerText.trim() || one.title)];
  return [...document.querySelectorAll("button, a, [role=button]")]
    .find((one) => isSeen(one) && namesOf(one).includes(arguments[0]));
"""
_SIDES = (("x", "width", "scrollX"), ("y", "height", "scrollY"))


def find_browser() -> tuple[str, str]:
    """Where Chromium and its driver are. In CI they have to be there."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        message = "the page is tested in chromium with chromedriver, and they are not installed"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return browser, driver


class Page:
    """The page in a window of a browser. Whatever is looked for is waited for."""

    def __init__(self, address: str, screenshots: Path, size: tuple[int, int] = WIDE, *, touch: bool = False) -> None:
        self.address, self._screenshots = address, screenshots
        browser, driver = find_browser()
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--use-fake-device-for-media-stream",
            "--use-fake-ui-for-media-stream",
        ):
            options.add_argument(argument)
        if touch:
            metrics = {"width": size[0], "height": size[1], "pixelRatio": 2, "touch": True}
            options.add_experimental_option("mobileEmulation", {"deviceMetrics": metrics})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(driver))
        self.driver.set_script_timeout(30)
        if not touch:
            metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def close(self) -> None:
        self.driver.quit()

    def go(self, path: str = "/") -> None:
        """Opens an address of the page, and waits until there is something to see."""
        self.driver.get(self.address + path)
        self.wait(lambda: self.driver.find_elements(By.CSS_SELECTOR, "#main h1, #main h2"), "the page does not start")

    def wait(self, condition: Callable[[], T], message: str = "") -> T:
        """Waits until a condition holds; what it gave."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                if result := condition():
                    return result
            except (StaleElementReferenceException, JavascriptException):
                pass  # drawn anew just now
            if time.monotonic() > deadline:
                raise AssertionError(message or "what was waited for did not happen")
            time.sleep(0.03)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The first that can be seen."""
        return self.wait(
            lambda: next((found for found in self.all(selector) if found.is_displayed()), None), f"no {selector}"
        )

    def button(self, text: str) -> WebElement:
        """The first button or link that can be seen and has this text or name."""
        return self.wait(lambda: self.run(_FIND_BUTTON, text), f"no button {text!r}")

    def click(self, text: str) -> None:
        """Clicks the button or link with this text or name, which may be drawn anew just now."""
        self.wait(lambda: self.button(text).click() is None)

    def tap_on(self, text: str) -> None:
        """The same with a finger."""
        self.wait(lambda: self.tap(self.button(text)) is None)

    def run(self, script: str, *values: object) -> Any:
        return self.driver.execute_script(script, *values)

    def run_async(self, script: str, *values: object) -> Any:
        """Runs the body of an async function."""
        return self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            f"(async (...given) => {{ {script} }})(...arguments).then(done, (error) => done(String(error)));",
            *values,
        )

    def actions(self) -> ActionChains:
        return ActionChains(self.driver, duration=50)

    def press(self, *keys: str) -> None:
        """Presses keys, one after the other, wherever the focus is."""
        for key in keys:
            self.actions().send_keys(key).perform()

    # --- what the page shows -----------------------------------------------------------------------------------------

    @property
    def formula(self) -> str:
        return self.run("return document.getElementById('formula').value")

    def wait_formula(self, text: str) -> None:
        self.wait(lambda: self.formula == text, f"the text is {self.formula!r}, not {text!r}")

    def trays(self) -> dict[str, list[str]]:
        """The names of the chips in the outermost trays; those in groups are not told."""
        return self.run(
            "const trays = {};"
            "for (const name of ['all', 'any', 'none'])"
            "  trays[name] = [...document.querySelectorAll(`.is-root > .${name} > ul > li > .holder > .chip`)]"
            "    .map((chip) => chip.getAttribute('aria-label'));"
            "return trays"
        )

    def wait_trays(self, **names: list[str]) -> None:
        expected = {"all": [], "any": [], "none": [], **names}
        self.wait(lambda: self.trays() == expected, f"the trays are {self.trays()}, not {expected}")

    def hits(self) -> list[str]:
        """The names below the images in view, in their order."""
        return self.run(
            "return [...document.querySelectorAll('#main .tile .note span')].map((note) => note.textContent)"
        )

    def wait_hits(self, first: list[str]) -> None:
        self.wait(lambda: self.hits()[: len(first)] == first, f"the hits are {self.hits()[: len(first)]}, not {first}")

    def tiles(self) -> list[str]:
        """The names of the images that exist, in their order."""
        script = "return [...document.querySelectorAll('#main .tile')].map((tile) => tile.title)"
        return [name for name in self.run(script) if name]

    def first(self, count: int) -> list[str]:
        """The names of the first images, once what stands above them has come and nothing moves any more."""
        self.wait(lambda: not self.all(".start:not([hidden])[aria-busy=true]"), "the start does not come")
        return self.wait(lambda: len(self.tiles()) >= count and self.tiles()[:count], "there are no images")

    def first_below(self, count: int) -> list[str]:
        """The same where they are below the start, as on a narrow screen: only what is in view exists."""
        self.wait(lambda: self.all("#main .grid") and not self.all(".start:not([hidden])[aria-busy=true]"))
        self.run("document.querySelector('#main .grid').scrollIntoView()")
        return self.first(count)

    def center(self, element: WebElement) -> None:
        """Scrolls so that an element is not under what sticks to the top."""
        self.run("arguments[0].scrollIntoView({ block: 'center' })", element)

    def tile(self, name: str) -> WebElement:
        return self.one(f'#main .tile[title="{name}"]')

    def choose(self, name: str, button: str = "more") -> None:
        """Clicks + or another button of an image, which may be drawn anew just now."""
        self.wait(lambda: self.tile(name))
        script = "document.querySelector(arguments[0]).click(); return true"
        self.wait(lambda: self.run(script, f'#main .tile[title="{name}"] [data-offer="{button}"]'))

    def open(self, name: str) -> None:
        """Clicks an image, and waits for it to be shown in the lightbox."""
        self.wait(lambda: self.tile(name).click() is None)
        self.wait(lambda: self.opened() == name, f"{name} does not open")

    def opened(self) -> str:
        """The name of the image in the lightbox; empty if it is closed."""
        return self.run(
            "const open = document.querySelector('#lightbox[open] #lightbox-facts h2'); return open?.textContent ?? ''"
        )

    def is_open(self, element: str) -> bool:
        """Whether a dialog or popover is open."""
        return self.run("return document.getElementById(arguments[0]).matches(':open, :popover-open')", element)

    def chip(self, name: str) -> WebElement:
        """An image in a tray."""
        return self.one(f'#trays .chip[aria-label="{name}"]')

    def drag(self, what: WebElement, target: str) -> None:
        self.actions().drag_and_drop(what, self.one(target)).perform()

    def tap(self, element: WebElement) -> None:
        """Touches with a finger."""
        place = element.rect
        x, y = (place[at] - self.run(f"return {scroll}") + place[side] / 2 for at, side, scroll in _SIDES)
        for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
            self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def write(self, field: WebElement, text: str) -> None:
        """Types over what is in a field."""
        self.run("arguments[0].select()", field)
        field.send_keys(text)

    def type_formula(self, text: str) -> None:
        self.write(self.one("#formula"), text)

    def look(self, name: str) -> None:
        """Keeps a screenshot, when all images in view have come."""
        self.wait(
            lambda: self.run("return [...document.images].every((image) => image.complete || image.loading === 'lazy')")
        )
        self._screenshots.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(self._screenshots / f"{name}.png"))

    def errors(self) -> list[str]:
        """What the console has complained of since the last time."""
        try:
            return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        except WebDriverException:
            return []


def check(page: Page, *expected: str) -> None:
    """No console error but the browser's own note of what is expected, and no request to elsewhere."""
    wrong = [error for error in page.errors() if not any(text in error for text in expected)]
    assert not wrong, wrong
    events = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    away = [url for url in asked if not url.startswith((f"{page.address}/", "blob:", "data:"))]
    assert not away, away
