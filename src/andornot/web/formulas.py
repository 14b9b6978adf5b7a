"""Formulas that come over the network: bounded, and told as a tree that the page can draw."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ..errors import printable
from ..gallery.browsing import Browser
from ..gallery.names import Resolved, key_of
from ..logic import Crop, Formula, FormulaError
from ..logic import program as p
from .presenters import find, size_of, tell_name
from .schemas import (
    AtLeastNode,
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

MAX_CHARACTERS: Final = 2_000
MAX_NAMES: Final = 64
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def read(text: str) -> Formula:
    """The formula, or a FormulaError that points at the spot."""
    formula = Formula(text)
    if len(formula.mentions) > MAX_NAMES:
        message = f"the formula names {len(formula.mentions)} pictures, more than {MAX_NAMES}"
        raise FormulaError(message, text, formula.mentions[MAX_NAMES].start)
    return formula


def repeats_names(formula: Formula) -> bool:
    """Whether a picture is named twice: then the exact meaning may take seconds to compute."""
    return len(formula.mentions) > len(formula.atoms)


def names(resolved: Resolved, browser: Browser, uploads: Mapping[str, str] = _NONE) -> list[FormulaName]:
    """Every mention of a picture, a word or a defined name, in the order of the text; the latter have no picture.

    `uploads` says what uploaded pictures are called where they come from.
    """
    told = []
    for name, start, end, atom in resolved.asked.mentions:
        thing, shown = resolved.named.get(key_of(atom)), printable(name)
        mention = FormulaName(
            name=shown, start=start, end=end, id=None, upload=None, version="", file=shown, kind="definition", crop=None
        )
        if thing is not None and thing.kind == "word":
            mention.kind = "word"
        elif thing is not None and thing.id is None:
            mention.kind, mention.upload, mention.file = "upload", shown, uploads.get(name, shown)
        elif thing is not None and thing.id is not None:
            picture = tell_name(browser, find(browser, thing.id))
            mention.kind, mention.id = "picture", picture.id
            mention.version, mention.file = picture.version, picture.name
        if thing is not None and thing.crop is not None:
            mention.crop = _fractions(thing.crop, thing.path)
        told.append(mention)
    return told


def _fractions(crop: Crop, path: str) -> list[float] | None:
    """A crop as fractions of its picture; None where it is in pixels, and nobody knows of how many."""
    if not crop.in_pixels:
        return list(crop)
    width, height = size_of(path)
    if width is None or height is None:
        return None
    return [min(1.0, edge / side) for edge, side in zip(crop, (width, height, width, height), strict=True)]


def explain(resolved: Resolved, browser: Browser, uploads: Mapping[str, str] = _NONE) -> FormulaAnswer:
    """What a formula says."""
    formula, mentions = resolved.asked, names(resolved, browser, uploads)
    return FormulaAnswer(
        formula=formula.text,
        is_condition=resolved.formula.is_condition,
        terms=[printable(str(term)) for term in formula.terms],
        names=mentions,
        tree=_tree(formula, iter(mentions)),
    )


def _tree(formula: Formula, mentions: Iterator[FormulaName]) -> Node:
    """The tree of a formula, that of its condition with those of its terms; the leaves are in the order of the text."""

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
        # a | b | c is read as (a | b) | c, and told as one list of three.
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
