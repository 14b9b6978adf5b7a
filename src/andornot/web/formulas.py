"""Formulas that come over the network: bounded, and told as a tree that the page can draw."""

from collections.abc import Collection, Iterator
from typing import Final

from ..errors import printable
from ..logic import Formula, FormulaError
from ..logic import program as p
from ..logic.parser import Token, parse, tokens
from .answers import AtLeastNode, FormulaAnswer, FormulaName, ListNode, NameNode, Node, NotNode
from .live import Served
from .telling import tell_name

MAX_CHARACTERS: Final = 2_000
MAX_NAMES: Final = 64


def read(text: str) -> Formula:
    """The formula, or a FormulaError that points at the spot."""
    formula = Formula(text)
    mentions = list(_mentions(text))
    if len(mentions) > MAX_NAMES:
        message = f"the formula names {len(mentions)} pictures, more than {MAX_NAMES}"
        raise FormulaError(message, text, mentions[MAX_NAMES].start)
    return formula


def repeats_names(formula: Formula) -> bool:
    """Whether a picture is named twice: then the exact meaning may take seconds to compute."""
    return len(list(_mentions(formula.text))) > len(formula.names)


def names(formula: Formula, served: Served, uploads: Collection[str]) -> list[FormulaName]:
    """Every mention of a picture, in the order of the text."""
    found = served.gallery.named(formula, uploads)
    told = []
    for token in _mentions(formula.text):
        position, name = found[token.name].position, printable(token.name)
        mention = FormulaName(name=name, start=token.start, end=token.end, id=None, upload=name, version="", file=name)
        if position is not None:
            picture = tell_name(served.browser, position)
            mention.id, mention.upload = picture.id, None
            mention.version, mention.file = picture.version, picture.name
        told.append(mention)
    return told


def explain(formula: Formula, served: Served, uploads: Collection[str]) -> FormulaAnswer:
    """What a formula says."""
    mentions = names(formula, served, uploads)
    return FormulaAnswer(formula=formula.text, names=mentions, tree=_tree(parse(formula.text).program, iter(mentions)))


def _mentions(text: str) -> Iterator[Token]:
    """The names of pictures; the k of `at_least(k, …)` is none."""
    before: tuple[str, ...] = ()
    for token in tokens(text):
        if token.kind == "name" and before != (p.AT_LEAST, "("):
            yield token
        before = (*before[-1:], token.kind)


def _tree(program: p.Program, mentions: Iterator[FormulaName]) -> Node:
    """The tree of a program, whose leaves come in the order of the text."""

    def grow(index: int) -> Node:
        node = program[index]
        match node.op:
            case p.NAME:
                return NameNode(**next(mentions).model_dump())
            case p.NOT:
                return NotNode(item=grow(node.args[0]))
            case p.AT_LEAST:
                return AtLeastNode(k=int(node.value), items=[grow(arg) for arg in node.args])
            case p.MINUS:
                return ListNode(op="minus", items=[grow(arg) for arg in node.args])
        # a | b | c is read as (a | b) | c, and told as one list of three.
        first, last = node.args
        operands = [last]
        while program[first].op == node.op:
            first, last = program[first].args
            operands.append(last)
        return ListNode(op="or" if node.op == p.OR else "and", items=[grow(arg) for arg in (first, *operands[::-1])])

    return grow(len(program) - 1)
