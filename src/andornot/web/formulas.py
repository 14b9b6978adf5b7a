"""Formulas of requests: limits, the parsed formula as the API returns it, and corrections of mistakes."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ..errors import printable
from ..gallery.names import BoundFormula, key_of
from ..logic import Crop, Formula, FormulaError
from ..logic import program as p
from ..logic.atoms import write_name
from .browsing import Browser
from .formula_schemas import (
    AtLeastNode,
    Correction,
    FormulaAnswer,
    FormulaName,
    Level,
    LikeNode,
    ListNode,
    NameNode,
    Node,
    NotNode,
    WeightNode,
)
from .presenters import image_size, position_of, present_name

MAX_CHARACTERS: Final = 2_000
MAX_NAMES: Final = 64
MAX_CROPS: Final = 16
_MAX_CORRECTIONS: Final = 4
_MAX_OPERATORS_ADDED: Final = 12
_KIND: Final = re.compile(r"(word|image)\s*:\s*", re.IGNORECASE)
_NO_UPLOADS: Final[Mapping[str, str]] = MappingProxyType({})


def parse_formula(text: str) -> Formula:
    """Parse a formula, or raise a FormulaError."""
    formula = Formula(text)
    if len(formula.mentions) > MAX_NAMES:
        message = f"the formula has {len(formula.mentions)} names: use at most {MAX_NAMES}"
        raise FormulaError(message, text, formula.mentions[MAX_NAMES].start, code="too-many-names")
    return formula


def has_crops(resolved: BoundFormula) -> bool:
    """Return whether the formula, or the definition of a name in it, has a crop."""
    return bool(_crops(resolved))


def check_crops(resolved: BoundFormula) -> None:
    """Raise a FormulaError for too many crops, those of its definitions included."""
    crops = _crops(resolved)
    if len(crops) > MAX_CROPS:
        mentions = resolved.asked.mentions
        position = next((mention.start for mention in mentions if key_of(mention.atom) == crops[MAX_CROPS]), 0)
        message = f"the formula has {len(crops)} crops: use at most {MAX_CROPS}"
        raise FormulaError(message, resolved.asked.text, position, code="too-many-crops")


def repeats_names(formula: Formula) -> bool:
    """Return whether a name occurs twice: then exact evaluation may take seconds."""
    return len(formula.mentions) > len(formula.atoms)


def present_names(
    resolved: BoundFormula, browser: Browser, upload_names: Mapping[str, str] = _NO_UPLOADS
) -> list[FormulaName]:
    """Return every mention of an image, a word or a defined name, in the order of the text.

    `upload_names` are the file names of uploads.
    """
    presented = []
    for name, start, end, atom in resolved.asked.mentions:
        thing, shown = resolved.named.get(key_of(atom)), printable(name)
        mention = FormulaName(
            name=shown, start=start, end=end, id=None, upload=None, version="", file=shown, kind="definition", crop=None
        )
        if thing is not None and thing.kind == "word":
            mention.kind = "word"
        elif thing is not None and thing.id is None:
            mention.kind, mention.upload, mention.file = "upload", shown, upload_names.get(name, shown)
        elif thing is not None and thing.id is not None:
            image = present_name(browser, position_of(browser, thing.id))
            mention.kind, mention.id = "image", image.id
            mention.version, mention.file = image.version, image.name
        if thing is not None and thing.crop is not None:
            mention.crop = _fractions(thing.crop, thing.path)
        presented.append(mention)
    return presented


def present_formula(
    resolved: BoundFormula, browser: Browser, upload_names: Mapping[str, str] = _NO_UPLOADS
) -> FormulaAnswer:
    """Return a parsed formula: its names and its tree."""
    formula, mentions = resolved.asked, present_names(resolved, browser, upload_names)
    return FormulaAnswer(
        formula=formula.text,
        is_condition=resolved.formula.is_condition,
        terms=[printable(str(term)) for term in formula.terms],
        names=mentions,
        tree=_tree(formula, iter(mentions)),
    )


def correct(error: FormulaError, check: Callable[[str], FormulaError | None]) -> list[Correction]:
    """Return formulas that may have been meant; `check` returns what is wrong with a formula, if anything.

    These are the nearest names for an unknown one, and `"polar bear"` or `polar and bear` for `polar bear`.
    """
    text = error.text
    if error.code == "missing-operator":
        return _with_operators(text, error.position, check)
    start, end = error.span
    kind = _KIND.match(text[start:end])
    before = text[:start] + (kind[0] if kind else "")
    return [
        Correction(formula=before + write_name(name) + text[end:], label=printable(name), is_certain=False)
        for name in error.suggestions[:_MAX_CORRECTIONS]
    ]


def _with_operators(text: str, position: int, check: Callable[[str], FormulaError | None]) -> list[Correction]:
    """Read adjacent words as one phrase if that is known, and join them by "and"."""
    found = []
    if all(character.isalnum() or character.isspace() for character in text):
        phrase = write_name(" ".join(text.split()))
        if check(phrase) is None:
            found.append(Correction(formula=phrase, label=phrase, is_certain=True))
    for _ in range(_MAX_OPERATORS_ADDED):
        text = f"{text[:position]}and {text[position:]}"
        error = check(text)
        if error is None or error.code != "missing-operator":
            return [*found, Correction(formula=text, label=text, is_certain=True)]
        position = error.position
    return found


def _crops(resolved: BoundFormula) -> list[str]:
    return [key for key, thing in resolved.named.items() if thing.crop is not None]


def _fractions(crop: Crop, path: str) -> list[float] | None:
    """Return a crop as fractions of its image; None for a crop in pixels of an image whose size is unknown."""
    if not crop.in_pixels:
        return list(crop)
    width, height = image_size(path)
    if width is None or height is None:
        return None
    return [min(1.0, edge / side) for edge, side in zip(crop, (width, height, width, height), strict=True)]


def _tree(formula: Formula, mentions: Iterator[FormulaName]) -> Node:
    """Return the tree of a formula, with the trees of its terms; the leaves are in the order of the text."""

    def grow(program: p.Program, index: int, level: Level) -> Node:
        node = program[index]
        match node.op:
            case p.NAME:
                return NameNode(**next(mentions).model_dump())
            case p.TERM:
                term = formula.terms[int(node.value)].program
                return grow(term, len(term) - 1, "term")
            case p.NOT:
                return NotNode(item=grow(program, node.args[0], level), level=level)
            case p.WEIGHT:
                return WeightNode(weight=float(node.value), item=grow(program, node.args[0], level))
            case p.AT_LEAST:
                return AtLeastNode(k=int(node.value), items=[grow(program, arg, level) for arg in node.args])
            case p.LIKE:
                return LikeNode(items=[grow(program, arg, level) for arg in node.args])
            case p.MINUS:
                return ListNode(op="minus", items=[grow(program, arg, level) for arg in node.args], level=level)
        # a | b | c is parsed as (a | b) | c, and returned as one list of three.
        first, last = node.args
        operands = [last]
        while program[first].op == node.op:
            first, last = program[first].args
            operands.append(last)
        return ListNode(
            op="or" if node.op == p.OR else "and",
            items=[grow(program, arg, level) for arg in (first, *operands[::-1])],
            level=level,
        )

    return grow(formula.condition, len(formula.condition) - 1, "condition")
