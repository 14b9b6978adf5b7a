"""Schemas of the API's responses."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .formula_schemas import FormulaAnswer

# Cameras record no time zone, so this is not one of the time formats of JSON schema.
Time = Annotated[str, Field(description="local time, without a time zone: 2024-05-31T18:00:00")]
TakenFrom = Annotated[
    Literal["camera", "file"],
    Field(description="where the date comes from: the camera, or the modification time of the file"),
]


class ImageName(BaseModel):
    """An image of the gallery: `name` is its file name, `term` how to write it in a formula.

    `version` changes with the content of the image: with `v=<version>`, thumbnails may be cached forever. `width` and
    `height` are those of the upright image.
    """

    id: int
    name: str
    term: str
    version: str
    width: int
    height: int


# --- the gallery ------------------------------------------------------------------------------------------------------


class LabelCount(BaseModel):
    """A label, which is the name of a folder, and the number of images in it."""

    label: str
    images: int


class Period(BaseModel):
    """The first and the last date."""

    model_config = ConfigDict(populate_by_name=True)

    from_: Time = Field(validation_alias="from", serialization_alias="from")
    to: Time


class GalleryAnswer(BaseModel):
    """Facts about the gallery. `state` is a text that changes whenever the gallery changes.

    `can_define`: this client may define names.
    """

    name: str
    images: int
    broken: int
    features: int
    values: int
    scores: list[str]
    logics: list[str]
    labels: list[LabelCount]
    taken: Period | None
    version: str
    state: str
    can_define: bool


class ImageSummary(ImageName):
    """An image with its label, and the date when it was taken (the date of its file if the camera recorded none)."""

    label: str
    taken: Time
    taken_from: TakenFrom


class ImagesAnswer(BaseModel):
    """A page of the images that pass a filter, starting at `offset` of `total`."""

    total: int
    offset: int
    images: list[ImageSummary]


class MonthCount(BaseModel):
    """A month, such as 2024-05, and its number of images."""

    month: str
    images: int


class TimelineAnswer(BaseModel):
    """The months of the images that pass a filter, newest first."""

    months: list[MonthCount]


class FeatureDegree(BaseModel):
    """The possession degree of a feature, and the images with the highest degrees."""

    feature: int
    degree: float
    shown_by: list[ImageName]


class WordTruth(BaseModel):
    """A word for what an image shows, how to write it in a formula, and its probability."""

    word: str
    term: str
    truth: float


class ImageAnswer(ImageSummary):
    """One image. `features` are those with the highest degrees above the gallery's average.

    `path` is its file, returned only to local requests.
    """

    path: str | None
    features: list[FeatureDegree]
    words: list[WordTruth]


class FolderAnswer(BaseModel):
    """A folder with the number of images below it. `folder` is the value for the parameter of that name."""

    name: str
    folder: str
    images: int
    folders: list["FolderAnswer"]


class DefinedName(BaseModel):
    """A name for a formula: a custom word or a saved search.

    `images`: the number of its hits, up to 1,000; null if it cannot be searched. `hits` are the best ones.
    """

    name: str
    term: str
    formula: str
    kind: Literal["term", "condition"]
    images: int | None
    hits: list[ImageName]


class DefinitionRequest(BaseModel):
    """A name and its formula, or another name for the definition `replaces`."""

    name: str = Field(max_length=300)
    formula: str = Field("", max_length=2_000)
    replaces: str = Field("", max_length=300)


class DefinitionsAnswer(BaseModel):
    """All defined names."""

    definitions: list[DefinedName]


class DuplicateAnswer(ImageSummary):
    """An image of a group. `copy`: an exact copy of an earlier one, or a near copy of the first. `bytes`: file size.

    `path` is returned only to local requests.
    """

    model_config = ConfigDict(populate_by_name=True)

    copy_: Literal["", "exact", "near"] = Field(validation_alias="copy", serialization_alias="copy")
    bytes: int
    path: str | None


class DuplicateGroup(BaseModel):
    """Images that are copies or near duplicates of the first one."""

    images: list[DuplicateAnswer]


class DuplicatesAnswer(BaseModel):
    """A page of the groups of duplicates, largest first; `images` is the number of images in all groups."""

    total: int
    images: int
    offset: int
    groups: list[DuplicateGroup]


class BrokenFile(BaseModel):
    """A file that could not be read as an image, and why. `path` is returned only to local requests."""

    name: str
    reason: str
    path: str | None


class BrokenAnswer(BaseModel):
    """A page of the files that could not be read."""

    total: int
    offset: int
    files: list[BrokenFile]


# --- suggestions ------------------------------------------------------------------------------------------------------


class WordShare(BaseModel):
    """A word, how to write it in a formula, the number of images that show it, and their share of the gallery."""

    word: str
    term: str
    group: Literal["people", "animals", "things", "places"]
    images: int
    share: float


class WordsAnswer(BaseModel):
    """The most distinctive words of the gallery. `has_words`: words can be searched."""

    words: list[WordShare]
    has_words: bool


class CompletionOption(BaseModel):
    """A completion: insert `text`, show `label`. An image has an id and a version."""

    text: str
    kind: Literal["word", "image", "definition", "operator"]
    label: str
    images: int | None
    id: int | None
    version: str


class CompleteAnswer(BaseModel):
    """Completions, each to replace the characters (code points) from `start` up to `end`."""

    start: int
    end: int
    completions: list[CompletionOption]


class ExampleQuery(BaseModel):
    """A query, the same as a sentence, and its best hits."""

    formula: str
    sentence: str
    hits: list[ImageName]


class ExamplesAnswer(BaseModel):
    """Example queries that have hits in this gallery."""

    examples: list[ExampleQuery]


# --- searches ---------------------------------------------------------------------------------------------------------


class HitReason(BaseModel):
    """A feature that contributed to the score of a hit, and the images with its highest degrees.

    `name` is what these images show; empty if that is unknown.
    """

    feature: int
    name: str
    contribution: float
    shown_by: list[ImageName]


class TermBoxAnswer(BaseModel):
    """Where in an image a term was found: left, top, right, bottom, as fractions of the image."""

    term: str
    box: list[float] = Field(min_length=4, max_length=4)


class SearchHit(ImageName):
    """A hit. Smaller distances are nearer; the distance of a condition is 1 - `truth`.

    `truth`, from 0 to 1, is the probability of a word; for an example it tells how far the image stands out in the
    gallery. `strength` is "strong" if at least 80 % of such hits are right, "weak" (`is_weak`) if it may be a chance
    match. `boxes` has a box for each term that was located, `words` the words of the image with probabilities, `terms`
    the truth of each term of a condition, `why` the features that contributed, if requested. `stacked_on` is the id of
    an earlier hit that this is a near duplicate of. `path` is returned only to local requests.
    """

    label: str
    path: str | None = None
    distance: float
    taken: Time
    taken_from: TakenFrom
    truth: float
    strength: Literal["strong", "maybe", "weak"]
    is_weak: bool
    boxes: list[TermBoxAnswer]
    words: dict[str, float]
    terms: dict[str, float]
    why: list[HitReason]
    stacked_on: int | None = None


class SearchAnswer(FormulaAnswer):
    """The parsed formula and its hits, best first; `total` images were searched."""

    total: int
    hits: list[SearchHit]
    seconds: float


# --- features, comparison, uploads ------------------------------------------------------------------------------------


class FeatureSummary(BaseModel):
    """A feature: mean and standard deviation of its degrees, and the images with the highest."""

    feature: int
    mean: float
    spread: float
    images: list[ImageName]


class FeaturesAnswer(BaseModel):
    """A page of the features."""

    total: int
    features: list[FeatureSummary]


class HistogramBin(BaseModel):
    """The number of images with a degree in a range."""

    model_config = ConfigDict(populate_by_name=True)

    from_: float = Field(validation_alias="from", serialization_alias="from")
    to: float
    images: int


class ImageDegree(ImageName):
    """An image and its degree of a feature."""

    degree: float


class FeatureAnswer(BaseModel):
    """One feature: the histogram of its degrees, and the images with the highest."""

    feature: int
    mean: float
    spread: float
    histogram: list[HistogramBin]
    images: list[ImageDegree]


class ComparedImage(BaseModel):
    """One of the two images of a comparison."""

    id: int | None
    upload: str | None
    version: str
    name: str


Operation = Literal["a", "b", "or", "and", "not_a", "not_b", "a_minus_b", "b_minus_a"]


class CompareAnswer(BaseModel):
    """Two images and the results of the operators, in the most informative features.

    For each of `features`, `degrees` has a number, `distributions` the probabilities of the truth values, and
    `shown_by` the images with the highest degrees.
    """

    a: ComparedImage
    b: ComparedImage
    features: list[int]
    shown_by: list[list[ImageName]]
    degrees: dict[Operation, list[float]]
    distributions: dict[Operation, list[list[float]]]
    distance: float


class UploadAnswer(BaseModel):
    """An uploaded image. `upload` is its name in formulas, valid until unused for an hour; `name` its file name."""

    upload: str
    name: str
    width: int
    height: int
