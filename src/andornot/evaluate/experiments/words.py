"""Evaluate words as queries on labelled images: whether class names find their images, alone and in conditions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from torch import Tensor

from ...concepts import (
    ImageNetVocabulary,
    Meaning,
    ModelVocabulary,
    QuantizedClasses,
    UnknownWordError,
    truth_of,
    vocabulary_for,
)
from ...data import ImageSet, ResizedImages
from ...errors import EvaluationError
from ...errors import unknown as not_known
from ...model import Model
from ..metrics.intervals import MeanStd
from ..metrics.ranking import average_precision, precision_at
from ..report.outcome import Outcome, Section, Table
from .operators import GalleryTruths

# Class names that WordNet spells differently, or uses for something else.
SPELLINGS: Final = {"motorbike": "motorcycle", "tvmonitor": "television"}
# The number of images that a pair of classes needs: with exactly these two classes, and with each one alone.
_MIN_BOTH, _MIN_ALONE = 9, 12

QUERY_KINDS: Final = ("word", "one image", "like of three", "word and image")
# Example images drawn per class: "one image" uses the first, "like of three" all of them.
_EXAMPLES: Final = 3

Scores = dict[str, Tensor]
"""The truth of each class in each image `(n, classes)`, by kind of word query."""


@dataclass(frozen=True)
class _KnownClasses:
    """Classes whose names are known words (indices, names and meanings), and the error messages of all others."""

    numbers: Sequence[int]
    names: Sequence[str]
    meanings: Sequence[Meaning]
    unknown: Mapping[str, str]


class QueryMetrics(NamedTuple):
    """Precision and average precision of one kind of query, over draws of examples."""

    precision: MeanStd
    average_precision: MeanStd


class ExampleComparison(NamedTuple):
    """Metrics by class and kind of query, and their means over classes."""

    by_class: dict[str, dict[str, QueryMetrics]]
    means: dict[str, QueryMetrics]


def evaluate_words(
    model: Model,
    images: ImageSet,
    *,
    top: int = 20,
    spellings: Mapping[str, str] | None = None,
    draws: int = 5,
    seed: int = 0,
) -> Outcome:
    """Evaluate class names as queries: alone, in pairs with `and` and `and not`, and compared with example images.

    `spellings` maps a class to the word to use instead of its name. Example images are drawn `draws` times.
    """
    for name, number in (("top", top), ("draws", draws)):
        if number < 1:
            raise EvaluationError(f"{name} must be 1 or more, not {number}")
    if not images.class_names:
        raise EvaluationError("words are evaluated on labelled images, and these have no labels: try voc:PATH")
    for name in spellings or ():
        if name not in images.class_names:
            raise EvaluationError(not_known("class", name, images.class_names))
    words = vocabulary_for(model.backbone)
    classes = _look_up_classes(words, images.class_names, {**SPELLINGS, **(spellings or {})})
    resized = images.resized(model.size, model.fit)
    all_labels = _labels(resized)
    labels = all_labels[:, list(classes.numbers)]
    evidence, degrees = _encode(model, words, images, resized)
    scores = _score_classes(words, classes, evidence)
    single, pairs = _measure_classes(scores, labels, classes, top), measure_pairs(scores, labels, top)
    means = {kind: _class_means(single[kind]) for kind in scores}
    best = next(iter(means))
    alone = labels & (all_labels.sum(1) == 1)[:, None]
    compared = compare_with_examples(
        degrees, scores[best], labels, alone, classes.names, top=top, draws=draws, seed=seed
    )
    return Outcome(
        "Words as queries",
        f"{len(classes.names)} of {len(images.class_names)} class names are words. Of the {top} best hits "
        f"{means[best]['precision']:.1%} are right; the mean average precision is {means[best]['mAP']:.3f}.",
        {
            kind: {**means[kind], **pairs.get(kind, {}), "by_class": {row[0]: row[1:] for row in single[kind]}}
            for kind in scores
        }
        | {"unknown": dict(classes.unknown), "examples": _example_metrics(compared)},
        {
            "evaluation": "words",
            "model": model.id,
            "top": top,
            "images": len(resized),
            "asked": {name: meaning.name for name, meaning in zip(classes.names, classes.meanings, strict=True)},
            "unknown": dict(classes.unknown),
            "pairs": f"at least {_MIN_BOTH} images with exactly these two classes, and {_MIN_ALONE} with each alone",
            "examples": f"{_EXAMPLES} images of each class with nothing else, drawn {draws} times, not ranked",
            "seed": seed,
            "unreadable_images_left_out": len(resized.broken),
        },
        _sections(scores, single, means, pairs, classes, top, compared),
    )


def _look_up_classes(words: ModelVocabulary, class_names: Sequence[str], spellings: Mapping[str, str]) -> _KnownClasses:
    known: list[tuple[int, str, Meaning]] = []
    unknown = {}
    for number, name in enumerate(class_names):
        try:
            known.append((number, name, words.meaning(spellings.get(name, name))))
        except UnknownWordError as error:
            unknown[name] = str(error)
    if not known:
        raise EvaluationError(f"no class name is a known word: {next(iter(unknown.values()))}")
    numbers, names, meanings = zip(*known, strict=True)
    return _KnownClasses(numbers, names, meanings, unknown)


def _labels(images: ResizedImages) -> Tensor:
    if images.labels is None:
        raise EvaluationError("words are evaluated on labelled images, and these have no labels: try voc:PATH")
    return torch.as_tensor(images.labels) > 0


def _encode(model: Model, words: ModelVocabulary, images: ImageSet, readable: ResizedImages) -> tuple[Tensor, Tensor]:
    """Return the evidence for words and the possession degrees, from one pass over the readable images."""
    model.reserve(len(readable))
    parts = images.subset(readable.kept).read_parts(model.size) if model.sees_all else [readable]
    encoded = [
        (words.evidence(maps).cpu(), model.backbone.pool(maps).cpu())
        for part in parts
        for maps in model.iter_feature_maps(part)
    ]
    evidence, activations = zip(*encoded, strict=True)
    return torch.cat(evidence), model.encode_activations(torch.cat(activations)).degrees


def _score_classes(words: ModelVocabulary, classes: _KnownClasses, evidence: Tensor) -> Scores:
    """Return the truth of each class by kind of word query; the summary reports the first kind."""

    def truths(evidence: Tensor) -> Tensor:
        return torch.stack(
            [truth_of(words.support(meaning, evidence), meaning.half) for meaning in classes.meanings], 1
        )

    scores = {"words": truths(evidence)}
    if isinstance(words, ImageNetVocabulary):
        kept = QuantizedClasses.of(evidence)
        stored = torch.cat([kept.evidence(), evidence[:, kept.evidence().shape[1] :]], 1)
        scores[f"words, {kept.classes.shape[1]} classes kept"] = truths(stored)
    return scores


def _measure_classes(
    scores: Scores, labels: Tensor, classes: _KnownClasses, top: int
) -> dict[str, list[tuple[str, float, float]]]:
    """Return name, precision and average precision of each class that some image shows, by kind of query."""
    present = [column for column in range(labels.shape[1]) if bool(labels[:, column].any())]
    if not present:
        raise EvaluationError("no image shows a class whose name is a known word")
    return {
        kind: [
            (
                classes.names[column],
                precision_at(top, truth[:, column], labels[:, column]),
                average_precision(truth[:, column], labels[:, column]),
            )
            for column in present
        ]
        for kind, truth in scores.items()
    }


def _class_means(rows: Sequence[tuple[str, float, float]]) -> dict[str, float]:
    _, precisions, averages = zip(*rows, strict=True)
    return {"precision": sum(precisions) / len(rows), "mAP": sum(averages) / len(rows)}


def measure_pairs(scores: Scores, labels: Tensor, top: int) -> dict[str, dict[str, float]]:
    """Return the mean precision of `a and b` and `a and not b` over pairs of classes, by kind; empty without pairs."""
    pairs = find_pairs(labels)
    if not pairs:
        return {}

    def mean_precision(score: Callable[[int, int], Tensor], wanted: Callable[[int, int], Tensor]) -> float:
        return sum(precision_at(top, score(a, b), wanted(a, b)) for a, b in pairs) / len(pairs)

    metrics = {}
    for kind, truth in scores.items():
        both = mean_precision(lambda a, b: truth[:, a] * truth[:, b], lambda a, b: labels[:, a] & labels[:, b])  # noqa: B023
        shown = [
            mean_precision(lambda a, b: truth[:, a] * (1 - truth[:, b]), which)  # noqa: B023
            for which in (lambda a, _: labels[:, a], lambda _, b: labels[:, b])
        ]
        metrics[kind] = {"pairs": len(pairs), "and_both": both, "and_not_a": shown[0], "and_not_b": shown[1]}
    return metrics


def find_pairs(labels: Tensor) -> list[tuple[int, int]]:
    """Return ordered pairs of classes with enough images of both and of each alone."""
    count = labels.sum(1)
    alone = (labels & (count == 1)[:, None]).sum(0)
    both = (labels & (count == 2)[:, None]).long()
    together = both.T @ both
    classes = range(labels.shape[1])
    return [
        (a, b)
        for a in classes
        for b in classes
        if a != b and together[a, b] >= _MIN_BOTH and min(int(alone[a]), int(alone[b])) >= _MIN_ALONE
    ]


def compare_with_examples(
    degrees: Tensor,
    words: Tensor,
    labels: Tensor,
    alone: Tensor,
    names: Sequence[str],
    *,
    top: int,
    draws: int,
    seed: int,
) -> ExampleComparison | None:
    """Compare words and example images as queries for each class; None without examples.

    Truths of words and labels are `(n, classes)`. Examples are drawn from the images that show only that class, `alone`
    `(n, classes)`, and are excluded from the ranking for every kind of query.
    """
    truths, random = GalleryTruths(degrees), torch.Generator().manual_seed(seed)
    runs: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for column, name in enumerate(names):
        candidates = torch.nonzero(alone[:, column])[:, 0]
        if len(candidates) <= _EXAMPLES:
            continue
        runs[name] = []
        for _ in range(draws):
            drawn = candidates[torch.randperm(len(candidates), generator=random)[:_EXAMPLES]].tolist()
            word = words[:, column]
            scores = (
                word,
                truths.of_examples(drawn[:1]),
                truths.of_examples(drawn),
                word * truths.of_examples(drawn[:1], expanded=True),
            )
            ranked = torch.ones(len(labels), dtype=torch.bool)
            ranked[drawn] = False
            wanted = labels[ranked, column]
            metrics = [
                (precision_at(top, score[ranked], wanted), average_precision(score[ranked], wanted)) for score in scores
            ]
            runs[name].append(dict(zip(QUERY_KINDS, metrics, strict=True)))
    if not runs:
        return None
    by_class = {
        name: {kind: _over_draws([draw[kind] for draw in of_class]) for kind in QUERY_KINDS}
        for name, of_class in runs.items()
    }
    means = {
        kind: _over_draws([_mean_pair([of_class[draw][kind] for of_class in runs.values()]) for draw in range(draws)])
        for kind in QUERY_KINDS
    }
    return ExampleComparison(by_class, means)


def _mean_pair(metrics: Sequence[tuple[float, float]]) -> tuple[float, float]:
    precisions, averages = zip(*metrics, strict=True)
    return sum(precisions) / len(metrics), sum(averages) / len(metrics)


def _over_draws(metrics: Sequence[tuple[float, float]]) -> QueryMetrics:
    precisions, averages = zip(*metrics, strict=True)
    return QueryMetrics(MeanStd.of(precisions), MeanStd.of(averages))


def _sections(
    scores: Scores,
    single: Mapping[str, Sequence[tuple[str, float, float]]],
    means: Mapping[str, Mapping[str, float]],
    pairs: Mapping[str, Mapping[str, float]],
    classes: _KnownClasses,
    top: int,
    compared: ExampleComparison | None,
) -> list[Section]:
    first = next(iter(scores))
    overall = Table(
        f"Means over classes: precision of the {top} best hits, and average precision.",
        ["query", f"precision at {top}", "average precision"],
        [[kind, means[kind]["precision"], means[kind]["mAP"]] for kind in scores],
    )
    meaning_of = dict(zip(classes.names, classes.meanings, strict=True))
    by_class = Table(
        "Each class by its name alone, and the meaning of the name.",
        ["class", "meaning", f"precision at {top}", "average precision"],
        [
            [name, f"{meaning_of[name].name}: {meaning_of[name].gloss}", precision, average]
            for name, precision, average in single[first]
        ],
    )
    sections = [Section("One word", content=[overall, by_class])]
    if compared is not None:
        sections.append(_example_section(compared, top))
    if pairs:
        conditions = Table(
            f"Means over {pairs[first]['pairs']:.0f} ordered pairs: share of the {top} best hits that show the class.",
            ["query", "a and b: both", "a and not b: a", "a and not b: b"],
            [[kind, pairs[kind]["and_both"], pairs[kind]["and_not_a"], pairs[kind]["and_not_b"]] for kind in scores],
        )
        sections.append(Section("Two words", content=[conditions]))
    if classes.unknown:
        rows = [list(row) for row in classes.unknown.items()]
        table = Table("Class names that are not known words.", ["class", "reason"], rows)
        sections.append(Section("Unknown words", content=[table]))
    return sections


def _example_section(compared: ExampleComparison, top: int) -> Section:
    overall = Table(
        "Means over classes; after ± the standard deviation over draws of the examples.",
        ["query", f"precision at {top}", "average precision"],
        [[kind, *compared.means[kind]] for kind in QUERY_KINDS],
        best={f"precision at {top}": "high", "average precision": "high"},
    )
    by_class = [
        Table(
            f"The {what} of each class.",
            ["class", *QUERY_KINDS],
            [
                [name, *(getattr(kinds[kind], which) for kind in QUERY_KINDS)]
                for name, kinds in compared.by_class.items()
            ],
        )
        for which, what in (
            ("precision", f"precision of the {top} best hits"),
            ("average_precision", "average precision"),
        )
    ]
    text = (
        "Examples are images of a class with nothing else, and are left out of every ranking. Whole images are "
        "compared, as in a gallery without regions."
    )
    return Section("Words and images", text, [overall, *by_class])


def _example_metrics(compared: ExampleComparison | None) -> dict[str, object]:
    if compared is None:
        return {}

    def to_data(kinds: Mapping[str, QueryMetrics]) -> dict[str, dict[str, float]]:
        return {
            kind: {
                "precision": metrics.precision.mean,
                "precision_std": metrics.precision.std,
                "mAP": metrics.average_precision.mean,
                "mAP_std": metrics.average_precision.std,
            }
            for kind, metrics in kinds.items()
        }

    return {**to_data(compared.means), "by_class": {name: to_data(kinds) for name, kinds in compared.by_class.items()}}
