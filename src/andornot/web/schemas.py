"""What the API answers, as the OpenAPI schema shows it."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# Cameras know no time zone, so that this is none of the formats that JSON schema has for times.
Time = Annotated[str, Field(description="as the clock on the wall showed it: 2024-05-31T18:00:00")]


TakenFrom = Annotated[
    Literal["camera", "file", "unknown"],
    Field(description="who says so: the camera, or only the file; galleries of version 0.1 do not know"),
]


class FailureDetail(BaseModel):
    """What is wrong. `position` and `length` are there for formulas, in characters (code points) of the formula."""

    message: str
    position: int = Field(default=0, ge=0)
    length: int = Field(default=0, ge=0)
    nearest: list[str] = Field(default=[], description="words and names near one that nobody knows")


class Failure(BaseModel):
    """The answer to a request that went wrong."""

    error: FailureDetail


class LabelCount(BaseModel):
    """A label, which is the name of a folder, and how many pictures are in it."""

    label: str
    pictures: int


class Period(BaseModel):
    """From the first to the last."""

    model_config = ConfigDict(populate_by_name=True)

    from_: Time = Field(validation_alias="from", serialization_alias="from")
    to: Time


class GalleryAnswer(BaseModel):
    """The gallery as a whole. `state` is a text that is another one whenever the gallery has changed."""

    name: str
    pictures: int
    broken: int
    features: int
    values: int
    scores: list[str]
    logics: list[str]
    labels: list[LabelCount]
    taken: Period | None
    version: str
    state: str


class PictureName(BaseModel):
    """A picture of the gallery; `name` is its file's own name, `term` how it is written in a formula.

    `version` is another one when the picture is: with `v=` it, what shows the picture may be kept for ever.
    """

    id: int
    name: str
    term: str
    version: str


class Picture(PictureName):
    """A picture with its label and its date: when it was taken, or where no camera noted that, that of its file."""

    label: str
    taken: Time
    taken_from: TakenFrom


class PicturesAnswer(BaseModel):
    """A part of the gallery: `total` pictures pass the filter, and these are those from `offset` on."""

    total: int
    offset: int
    pictures: list[Picture]


class FeatureDegree(BaseModel):
    """The possession degree of a feature, and the pictures that show it most."""

    feature: int
    degree: float
    shown_by: list[PictureName]


class PictureAnswer(Picture):
    """One picture. `features` are those it has most of, compared with the gallery's average.

    `path` is where its file is: told to who asks from the machine itself, else null.
    """

    path: str | None
    width: int | None
    height: int | None
    features: list[FeatureDegree]
    words: list["WordTruth"]


class WordTruth(BaseModel):
    """A word for what a picture shows, and how likely it does."""

    word: str
    truth: float


class WordShare(BaseModel):
    """A word, how many pictures show it, and what part of the gallery these are."""

    word: str
    pictures: int
    share: float


class WordsAnswer(BaseModel):
    """The words that tell most of the gallery. `has_words`: words can be asked for."""

    words: list[WordShare]
    has_words: bool


class Completion(BaseModel):
    """What could stand at the cursor: `text` goes there, `label` is to be shown. A picture has an id and a version."""

    text: str
    kind: Literal["word", "picture", "definition", "operator"]
    label: str
    pictures: int | None
    id: int | None
    version: str


class CompleteAnswer(BaseModel):
    """Completions, each in the place of the characters (code points) from `start` up to `end`."""

    start: int
    end: int
    completions: list[Completion]


class Example(BaseModel):
    """A query, what it asks for as a sentence, and its best hits."""

    formula: str
    sentence: str
    hits: list[PictureName]


class ExamplesAnswer(BaseModel):
    """Queries that find something in this gallery."""

    examples: list[Example]


class FolderAnswer(BaseModel):
    """A folder with the number of pictures in it, at any depth. `folder` is what the parameter of that name takes."""

    name: str
    folder: str
    pictures: int
    folders: list["FolderAnswer"]


class Definition(BaseModel):
    """A name that was given to a formula. `pictures`: how many match it, up to 1,000; null if it cannot be asked."""

    name: str
    term: str
    formula: str
    kind: Literal["term", "condition"]
    pictures: int | None


class DefinitionsAnswer(BaseModel):
    """All definitions."""

    definitions: list[Definition]


class BrokenFile(BaseModel):
    """A file that could not be read as a picture, and why; only the owner hears where it is."""

    name: str
    reason: str
    path: str | None


class BrokenAnswer(BaseModel):
    """Some of the files that could not be read."""

    total: int
    offset: int
    files: list[BrokenFile]


class FormulaName(BaseModel):
    """A mention of a picture, a word or a defined name in a formula, from the character `start` up to `end`.

    A picture of the gallery has its `id`, an uploaded one its `upload`. `crop` is the part of it that is meant, as
    fractions: left, top, right, bottom.
    """

    name: str
    start: int
    end: int
    id: int | None
    upload: str | None
    version: str
    file: str
    kind: Literal["picture", "upload", "word", "definition"]
    crop: list[float] | None = Field(min_length=4, max_length=4)


# "and", "or" and "not" join conditions, "&", "|", "-" and "~" pictures: the tree calls both and, or, not, minus.
Level = Annotated[Literal["condition", "term"], Field(description="what is joined")]


class NameNode(FormulaName):
    """A picture, a word or a defined name, as a leaf of the tree of a formula."""

    op: Literal["name"] = "name"


class NotNode(BaseModel):
    """The opposite of `item`."""

    op: Literal["not"] = "not"
    level: Level
    item: "Node"


class ListNode(BaseModel):
    """OR or AND of all items, or the first item without the second."""

    op: Literal["or", "and", "minus"]
    level: Level
    items: list["Node"]


class AtLeastNode(BaseModel):
    """What at least `k` of the items have."""

    op: Literal["at_least"] = "at_least"
    k: int
    items: list["Node"]


class LikeNode(BaseModel):
    """Several pictures of one thing."""

    op: Literal["like"] = "like"
    items: list["Node"]


class WeightNode(BaseModel):
    """A term of a condition, and how much it counts."""

    op: Literal["weight"] = "weight"
    weight: float
    item: "Node"


Node = NameNode | NotNode | ListNode | AtLeastNode | LikeNode | WeightNode


class FormulaAnswer(BaseModel):
    """A formula: every mention of a name in the order of the text, and the tree.

    `is_condition`: whether `and`, `or`, `not` or a weight joins terms; `terms` are their texts.
    """

    formula: str
    is_condition: bool
    terms: list[str]
    names: list[FormulaName]
    tree: Node


class Reason(BaseModel):
    """A feature that carried a match, what it gave to the score, and the pictures that show it most.

    `name` is what these show together; empty if that cannot be said.
    """

    feature: int
    name: str
    contribution: float
    shown_by: list[PictureName]


class Place(BaseModel):
    """Where in a picture a term was found: left, top, right, bottom, as fractions of the picture."""

    term: str
    box: list[float] = Field(min_length=4, max_length=4)


class Hit(PictureName):
    """A picture that was found. Smaller distances are nearer; that of a condition is 1 - `truth`.

    `truth`, from 0 to 1, says how far it stands out in the gallery; `is_weak`: the best of unrelated pictures may reach
    as much. `where` has a place for each term that was found in a region. `why` is empty unless it was asked for.

    `words` say what it shows, as far as that can be told. `stacked_on` is the id of the earlier hit of this answer that
    it nearly equals, such as a copy; else null.

    `path` is where its file is: told to who asks from the machine itself, else null.
    """

    label: str
    path: str | None = None
    distance: float
    taken: Time
    taken_from: TakenFrom
    truth: float
    is_weak: bool
    where: list[Place]
    words: list[str]
    why: list[Reason]
    stacked_on: int | None = None


class SearchAnswer(BaseModel):
    """The hits of a formula from near to far; `total` pictures were searched."""

    formula: str
    names: list[FormulaName]
    total: int
    hits: list[Hit]
    seconds: float


class Feature(BaseModel):
    """A feature: mean and standard deviation of its degrees, and the pictures that show it most."""

    feature: int
    mean: float
    spread: float
    pictures: list[PictureName]


class FeaturesAnswer(BaseModel):
    """Some of the features."""

    total: int
    features: list[Feature]


class Bin(BaseModel):
    """How many pictures have a degree in a range."""

    model_config = ConfigDict(populate_by_name=True)

    from_: float = Field(validation_alias="from", serialization_alias="from")
    to: float
    pictures: int


class PictureDegree(PictureName):
    """A picture, and its degree of a feature."""

    degree: float


class FeatureAnswer(BaseModel):
    """One feature: the distribution of its degrees, and the pictures with the highest."""

    feature: int
    mean: float
    spread: float
    histogram: list[Bin]
    pictures: list[PictureDegree]


class Compared(BaseModel):
    """One of two pictures that are compared."""

    id: int | None
    upload: str | None
    version: str
    name: str


Operation = Literal["a", "b", "or", "and", "not_a", "not_b", "a_minus_b", "b_minus_a"]


class CompareAnswer(BaseModel):
    """Two pictures and what is computed of them, in the features with the most to see.

    `degrees` has a number for each of `features`, `distributions` the probabilities of its truth values, `shown_by`
    the pictures that show it most.
    """

    a: Compared
    b: Compared
    features: list[int]
    shown_by: list[list[PictureName]]
    degrees: dict[Operation, list[float]]
    distributions: dict[Operation, list[list[float]]]
    distance: float


class UploadAnswer(BaseModel):
    """An uploaded picture. `upload` is its name in formulas, until it was not used for an hour.

    `name` is what to call it: the name that was given with it.
    """

    upload: str
    name: str
    width: int
    height: int
