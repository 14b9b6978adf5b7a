"""Schemas of parsed formulas and of errors."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class FormulaName(BaseModel):
    """A mention of an image, a word or a defined name in a formula, from character `start` up to `end`.

    An image of the gallery has an `id`, an uploaded one an `upload`. `crop` is the part of the image that is used, as
    fractions: left, top, right, bottom.
    """

    name: str
    start: int
    end: int
    id: int | None
    upload: str | None
    version: str
    file: str
    kind: Literal["image", "upload", "word", "definition"]
    crop: list[float] | None = Field(min_length=4, max_length=4)


# "and", "or" and "not" join conditions; "&", "|", "-" and "~" join terms. The tree uses the same names for both.
Level = Annotated[Literal["condition", "term"], Field(description="what is joined")]


class NameNode(FormulaName):
    """An image, a word or a defined name, as a leaf of the tree."""

    op: Literal["name"] = "name"


class NotNode(BaseModel):
    """NOT of `item`."""

    op: Literal["not"] = "not"
    level: Level
    item: "Node"


class ListNode(BaseModel):
    """OR or AND of all items, or the first item minus the second."""

    op: Literal["or", "and", "minus"]
    level: Level
    items: list["Node"]


class AtLeastNode(BaseModel):
    """At least `k` of the items."""

    op: Literal["at_least"] = "at_least"
    k: int
    items: list["Node"]


class LikeNode(BaseModel):
    """Several examples of one thing."""

    op: Literal["like"] = "like"
    items: list["Node"]


class WeightNode(BaseModel):
    """A term of a condition with its weight."""

    op: Literal["weight"] = "weight"
    weight: float
    item: "Node"


Node = NameNode | NotNode | ListNode | AtLeastNode | LikeNode | WeightNode


class FormulaNote(BaseModel):
    """How an unknown word was interpreted: as a known word, or approximately, by several known words."""

    code: Literal["taken-for", "approximate"]
    word: str
    by: list[str]


class FormulaAnswer(BaseModel):
    """A parsed formula: every mention of a name in text order, and the tree.

    `formula` is strict; `understood` is what plain text was read as, with its exclusions, and null if nothing was
    changed. `is_condition`: whether terms are joined by `and`, `or` or `not`, or weighted; `terms` are their texts.
    `notes`: how unknown words were interpreted.
    """

    formula: str
    understood: str | None
    is_condition: bool
    terms: list[str]
    names: list[FormulaName]
    tree: Node
    notes: list[FormulaNote]


class Correction(BaseModel):
    """A formula that may have been meant. `is_certain`: it is the only plausible reading."""

    formula: str
    label: str
    is_certain: bool


class ErrorDetail(BaseModel):
    """An error: a `code` for programs and a `message` for people.

    An error in a formula has a `span`: its start and end, in characters (code points) of the formula, or of what plain
    text was `understood` as.
    """

    code: str
    message: str
    span: list[int] | None = Field(default=None, min_length=2, max_length=2)
    suggestions: list[str] | None = Field(default=None, description="known words and names near an unknown one")
    corrections: list[Correction] | None = Field(default=None, description="with `lenient` only")
    understood: str | None = Field(default=None, description="with `lenient` only")


class ErrorAnswer(BaseModel):
    """The answer to a request that failed. `parsed`: a formula that can be parsed but not searched (`lenient` only)."""

    error: ErrorDetail
    parsed: FormulaAnswer | None = None
