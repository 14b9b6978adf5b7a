"""Words as queries, on labelled pictures: does the name of a class find its pictures, alone and in conditions?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ...data import ImageSet, Pictures
from ...errors import unknown as not_known
from ...model import Model
from ...words import KeptClasses, Meaning, NamedClasses, UnknownWordError, Words, truth_of, words_of
from ..errors import EvaluationError
from ..metrics.average_precision import average_precision
from ..metrics.precision import precision_at
from ..report.outcome import Outcome, Section, Table
from .examples import EXAMPLES, WAYS, Comparison, Found, compare

# Names of classes that WordNet spells otherwise, or has for something else.
SPELLINGS: Final = {"motorbike": "motorcycle", "tvmonitor": "television"}
# Pictures that a pair of classes needs to take part: with just these two, and with each alone.
_BOTH, _ALONE = 9, 12

Scores = dict[str, Tensor]
"""By how it is asked: the truth of each class in each picture `(n, classes)`."""


@dataclass(frozen=True)
class _Asked:
    """Classes whose names are words: their numbers, names and meanings; and what to say of the others."""

    numbers: Sequence[int]
    names: Sequence[str]
    meanings: Sequence[Meaning]
    unknown: Mapping[str, str]


def words_outcome(
    model: Model,
    images: ImageSet,
    *,
    top: int = 20,
    spellings: Mapping[str, str] | None = None,
    draws: int = 5,
    seed: int = 0,
) -> Outcome:
    """Precision and average precision of each class's name as a query, and of two of them joined by `and`, `and not`.

    `spellings` says which word to ask with for a class, where that is not its name. Beside the word a class is asked
    for with example pictures, which are drawn so many times.
    """
    for name, number in (("top", top), ("draws", draws)):
        if number < 1:
            raise EvaluationError(f"{name} must be 1 or more, not {number}")
    if not images.class_names:
        raise EvaluationError("words are measured on pictures with labels, and these have none: try voc:PATH")
    for name in spellings or ():
        if name not in images.class_names:
            raise EvaluationError(not_known("class", name, images.class_names))
    words = words_of(model)
    asked = _ask(words, images.class_names, {**SPELLINGS, **(spellings or {})})
    pictures = images.pictures(model.size, model.recipe.fit)
    all_labels = _labels(pictures)
    labels = all_labels[:, list(asked.numbers)]
    evidence, degrees = _look(model, words, pictures)
    scores = _scores(words, asked, evidence)
    single, pairs = _single_table(scores, labels, asked, top), pair_figures(scores, labels, top)
    means = {how: _means(single[how]) for how in scores}
    best = next(iter(means))
    alone = labels & (all_labels.sum(1) == 1)[:, None]
    compared = compare(degrees, scores[best], labels, alone, asked.names, top=top, draws=draws, seed=seed)
    return Outcome(
        "Words as queries",
        f"{len(asked.names)} of {len(images.class_names)} class names are words. Of the {top} best hits "
        f"{means[best]['precision']:.1%} are right; the mean average precision is {means[best]['mAP']:.3f}.",
        {
            how: {**means[how], **pairs.get(how, {}), "by_class": {row[0]: row[1:] for row in single[how]}}
            for how in scores
        }
        | {"unknown": dict(asked.unknown), "examples": _example_figures(compared)},
        {
            "evaluation": "words",
            "model": model.id,
            "top": top,
            "pictures": len(pictures),
            "asked": {name: meaning.name for name, meaning in zip(asked.names, asked.meanings, strict=True)},
            "unknown": dict(asked.unknown),
            "pairs": f"at least {_BOTH} pictures with just these two classes, and {_ALONE} with each alone",
            "examples": f"{EXAMPLES} pictures of each class with nothing else, drawn {draws} times, not in the ranking",
            "seed": seed,
            "unreadable_pictures_left_out": len(pictures.broken),
        },
        _sections(scores, single, means, pairs, asked, top, compared),
    )


def _ask(words: Words, class_names: Sequence[str], spellings: Mapping[str, str]) -> _Asked:
    known: list[tuple[int, str, Meaning]] = []
    unknown = {}
    for number, name in enumerate(class_names):
        try:
            known.append((number, name, words.meaning(spellings.get(name, name))))
        except UnknownWordError as error:
            unknown[name] = str(error)
    if not known:
        raise EvaluationError(f"no class has a name that is a word: {next(iter(unknown.values()))}")
    numbers, names, meanings = zip(*known, strict=True)
    return _Asked(numbers, names, meanings, unknown)


def _labels(pictures: Pictures) -> Tensor:
    if pictures.labels is None:
        raise EvaluationError("words are measured on pictures with labels, and these have none: try voc:PATH")
    return torch.as_tensor(pictures.labels) > 0


def _look(model: Model, words: Words, pictures: Pictures) -> tuple[Tensor, Tensor]:
    """What one pass over the pictures gives: the evidence for words, and the degrees of features."""
    seen = [(words.evidence(maps).cpu(), model.backbone.pool(maps).cpu()) for maps in model.look(pictures)]
    evidence, activations = zip(*seen, strict=True)
    return torch.cat(evidence), model.represent(torch.cat(activations)).degrees


def _scores(words: Words, asked: _Asked, evidence: Tensor) -> Scores:
    """The ways to ask that are compared; the first is the one that the summary speaks of."""

    def truths(seen: Tensor) -> Tensor:
        return torch.stack([truth_of(words.support(meaning, seen)) for meaning in asked.meanings], 1)

    scores = {"words": truths(evidence)}
    if isinstance(words, NamedClasses):
        kept = KeptClasses.of(evidence)
        scores[f"words, {kept.classes.shape[1]} classes kept"] = truths(kept.evidence())
    return scores


def _single_table(scores: Scores, labels: Tensor, asked: _Asked, top: int) -> dict[str, list[tuple[str, float, float]]]:
    """For each way to ask: name, precision and average precision of each class that some picture shows."""
    there = [column for column in range(labels.shape[1]) if bool(labels[:, column].any())]
    if not there:
        raise EvaluationError("no picture shows a class whose name is a word")
    return {
        how: [
            (
                asked.names[column],
                precision_at(top, truth[:, column], labels[:, column]),
                average_precision(truth[:, column], labels[:, column]),
            )
            for column in there
        ]
        for how, truth in scores.items()
    }


def _means(rows: Sequence[tuple[str, float, float]]) -> dict[str, float]:
    _, precisions, averages = zip(*rows, strict=True)
    return {"precision": sum(precisions) / len(rows), "mAP": sum(averages) / len(rows)}


def pair_figures(scores: Scores, labels: Tensor, top: int) -> dict[str, dict[str, float]]:
    """For each way to ask: the mean over pairs of what `a and b` and `a and not b` find; nothing without pairs."""
    pairs = pairs_of(labels)
    if not pairs:
        return {}

    def found(score: Callable[[int, int], Tensor], wanted: Callable[[int, int], Tensor]) -> float:
        return sum(precision_at(top, score(a, b), wanted(a, b)) for a, b in pairs) / len(pairs)

    figures = {}
    for how, truth in scores.items():
        both = found(lambda a, b: truth[:, a] * truth[:, b], lambda a, b: labels[:, a] & labels[:, b])  # noqa: B023
        rest = [
            found(lambda a, b: truth[:, a] * (1 - truth[:, b]), which)  # noqa: B023
            for which in (lambda a, _: labels[:, a], lambda _, b: labels[:, b])
        ]
        figures[how] = {"pairs": len(pairs), "and_both": both, "and_not_a": rest[0], "and_not_b": rest[1]}
    return figures


def pairs_of(labels: Tensor) -> list[tuple[int, int]]:
    """Ordered pairs of classes with enough pictures of both and of each alone."""
    count = labels.sum(1)
    alone = (labels & (count == 1)[:, None]).sum(0)
    both = (labels & (count == 2)[:, None]).long()
    together = both.T @ both
    classes = range(labels.shape[1])
    return [
        (a, b)
        for a in classes
        for b in classes
        if a != b and together[a, b] >= _BOTH and min(int(alone[a]), int(alone[b])) >= _ALONE
    ]


def _sections(
    scores: Scores,
    single: Mapping[str, Sequence[tuple[str, float, float]]],
    means: Mapping[str, Mapping[str, float]],
    pairs: Mapping[str, Mapping[str, float]],
    asked: _Asked,
    top: int,
    compared: Comparison | None,
) -> list[Section]:
    first = next(iter(scores))
    overall = Table(
        f"Means over classes: precision of the {top} best hits, and average precision.",
        ["asked by", f"precision at {top}", "average precision"],
        [[how, means[how]["precision"], means[how]["mAP"]] for how in scores],
    )
    meaning_of = dict(zip(asked.names, asked.meanings, strict=True))
    by_class = Table(
        "Each class by its name alone, and what the name was taken for.",
        ["class", "taken for", f"precision at {top}", "average precision"],
        [
            [name, f"{meaning_of[name].name}: {meaning_of[name].gloss}", precision, average]
            for name, precision, average in single[first]
        ],
    )
    sections = [Section("One word", content=[overall, by_class])]
    if compared is not None:
        sections.append(_comparison(compared, top))
    if pairs:
        conditions = Table(
            f"Means over {pairs[first]['pairs']:.0f} ordered pairs: which share of the {top} best hits shows what.",
            ["asked by", "a and b: both", "a and not b: a", "a and not b: b"],
            [[how, pairs[how]["and_both"], pairs[how]["and_not_a"], pairs[how]["and_not_b"]] for how in scores],
        )
        sections.append(Section("Two words", content=[conditions]))
    if asked.unknown:
        table = Table("Class names that are no words.", ["class", "why"], [list(row) for row in asked.unknown.items()])
        sections.append(Section("Not known", content=[table]))
    return sections


def _comparison(compared: Comparison, top: int) -> Section:
    overall = Table(
        "Means over classes; after ± the standard deviation over draws of the examples.",
        ["asked by", f"precision at {top}", "average precision"],
        [[way, *compared.means[way]] for way in WAYS],
        best={f"precision at {top}": "high", "average precision": "high"},
    )
    by_class = [
        Table(
            f"The {what} of each class.",
            ["class", *WAYS],
            [[name, *(getattr(ways[way], which) for way in WAYS)] for name, ways in compared.by_class.items()],
        )
        for which, what in (("precision", f"precision of the {top} best hits"), ("average", "average precision"))
    ]
    text = (
        "Examples are pictures of a class with nothing else, and are not in the ranking of any of these. "
        "Pictures are compared as wholes, as a gallery without regions does it."
    )
    return Section("Words and pictures", text, [overall, *by_class])


def _example_figures(compared: Comparison | None) -> dict[str, object]:
    if compared is None:
        return {}

    def plain(found: Mapping[str, Found]) -> dict[str, dict[str, float]]:
        return {
            way: {
                "precision": figures.precision.mean,
                "precision_deviation": figures.precision.deviation,
                "mAP": figures.average.mean,
                "mAP_deviation": figures.average.deviation,
            }
            for way, figures in found.items()
        }

    return {**plain(compared.means), "by_class": {name: plain(ways) for name, ways in compared.by_class.items()}}
