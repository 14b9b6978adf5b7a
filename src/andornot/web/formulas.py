"""Formulas in requests: limits, parsed formulas for the API, corrections of errors, and comparisons."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import torch

from ..errors import printable
from ..gallery.names import BoundFormula, key_of
from ..logic import Crop, Formula, FormulaError, Representation, degree_distance
from ..logic import program as p
from ..logic.atoms import write_name
from .browsing import Browser
from .errors import RequestError
from .formula_schemas import (
    AtLeastNode,
    Correction,
    FormulaAnswer,
    FormulaName,
    FormulaNote,
    Level,
    LikeNode,
    ListNode,
    NameNode,
    Node,
    NotNode,
    WeightNode,
)
from .presenters import image_size, position_of, present_name, strongest_images
from .schemas import CompareAnswer, ComparedImage, Operation
from .snapshots import Snapshot
from .uploads import Uploads

# --- formulas ---------------------------------------------------------------------------------------------------------

MAX_CHARACTERS: Final = 2_000
MAX_NAMES: Final = 64
MAX_CROPS: Final = 16
_MAX_CORRECTIONS: Final = 4
_MAX_OPERATORS_ADDED: Final = 12
_KIND: Final = re.compile(r"(word|image)\s*:\s*", re.IGNORECASE)
_NO_UPLOADS: Final[Mapping[str, str]] = MappingProxyType({})


def check_names(text: str) -> bool:
    """Raise a FormulaError for too many names; return whether a name is repeated, which can make evaluation slow.

    Plain text has at most 100 words, and no repeated name within a term.
    """
    try:
        formula = Formula(text)
    except FormulaError:
        return False
    if len(formula.mentions) > MAX_NAMES:
        message = f"the formula has {len(formula.mentions)} names: use at most {MAX_NAMES}"
        raise FormulaError(message, text, formula.mentions[MAX_NAMES].start, code="too-many-names")
    return len(formula.mentions) > len(formula.atoms)


def has_crops(resolved: BoundFormula) -> bool:
    """Return whether the formula, or the definition of a name in it, has a crop."""
    return bool(_crops(resolved))


def check_crops(resolved: BoundFormula) -> None:
    """Raise a FormulaError for too many crops, including those of definitions."""
    crops = _crops(resolved)
    if len(crops) > MAX_CROPS:
        mentions = resolved.asked.mentions
        position = next((mention.start for mention in mentions if key_of(mention.atom) == crops[MAX_CROPS]), 0)
        message = f"the formula has {len(crops)} crops: use at most {MAX_CROPS}"
        raise FormulaError(message, resolved.asked.text, position, code="too-many-crops")


def present_names(
    resolved: BoundFormula, browser: Browser, upload_names: Mapping[str, str] = _NO_UPLOADS
) -> list[FormulaName]:
    """Return every mention of an image, a word or a defined name, in text order.

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
        understood=printable(resolved.understood) or None,
        is_condition=resolved.formula.is_condition,
        terms=[printable(str(term)) for term in formula.terms],
        names=mentions,
        tree=_tree(formula, iter(mentions)),
        notes=[FormulaNote(code=note.code, word=printable(note.word), by=list(note.by)) for note in resolved.notes],
    )


def correct(error: FormulaError, check: Callable[[str], FormulaError | None]) -> list[Correction]:
    """Return formulas that may have been meant; `check` returns the error of a formula, if any.

    An unknown name is replaced by the nearest ones, and `polar bear` by `"polar bear"` or `polar and bear`.
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
    """Return adjacent words as one phrase if it is known, and joined by "and"."""
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
    """Return the tree of a formula, with the trees of its terms; the leaves are in text order."""

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


# --- comparison of two images -----------------------------------------------------------------------------------------

_FORMULAS: Final[dict[Operation, str]] = {
    "a": "{a}",
    "b": "{b}",
    "or": "{a} | {b}",
    "and": "{a} & {b}",
    "not_a": "~{a}",
    "not_b": "~{b}",
    "a_minus_b": "{a} - {b}",
    "b_minus_a": "{b} - {a}",
}


def compare(a: str, b: str, count: int, snapshot: Snapshot, uploads: Uploads) -> CompareAnswer:
    """Compare two images in the most informative features: what only one has, and what both have above average."""
    first, second = _find(a, snapshot, uploads), _find(b, snapshot, uploads)
    one, other = _represent(first, snapshot, uploads), _represent(second, snapshot, uploads)
    shared = (one & other).degrees - torch.from_numpy(snapshot.browser.features.mean).float()
    # Rank features by three criteria, and take the best rank of each feature, so that all three are represented.
    criteria = torch.stack([one.degrees - other.degrees, other.degrees - one.degrees, shared])
    ranks = criteria.argsort(descending=True).argsort().amin(0)
    chosen = ranks.argsort(stable=True)[:count]
    # An image compared with itself is one variable, not two that happen to be equal: a & a is a.
    is_same = (first.id, first.upload) == (second.id, second.upload)
    values = {"a": Representation(one.probs[chosen]), "b": Representation(other.probs[chosen])}
    computed: dict[Operation, Representation] = {
        operation: Formula(text.format(a="a", b="a" if is_same else "b")).evaluate(values)
        for operation, text in _FORMULAS.items()
    }
    return CompareAnswer(
        a=_present(first),
        b=_present(second),
        features=chosen.tolist(),
        shown_by=[strongest_images(snapshot.browser, feature) for feature in chosen.tolist()],
        degrees={operation: value.degrees.tolist() for operation, value in computed.items()},
        distributions={operation: value.probs.tolist() for operation, value in computed.items()},
        distance=max(0.0, float(degree_distance(one, other))),
    )


def _find(name: str, snapshot: Snapshot, uploads: Uploads) -> FormulaName:
    """Return the image with this name, or raise a RequestError."""
    try:
        resolved = snapshot.gallery.resolve(f"image:{write_name(name)}", uploads.known([name]))
    except FormulaError as error:
        raise RequestError(404, error.code, error.message) from None
    return present_names(resolved, snapshot.browser, uploads.file_names)[0]


def _present(found: FormulaName) -> ComparedImage:
    return ComparedImage(id=found.id, upload=found.upload, version=found.version, name=found.file)


def _represent(found: FormulaName, snapshot: Snapshot, uploads: Uploads) -> Representation:
    if found.id is not None:
        return snapshot.gallery.represent([found.id])[0]
    return uploads.represent([found.name], snapshot)[found.name]
