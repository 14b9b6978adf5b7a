"""`andornot evaluate logic`: compare logic over words and example images with arithmetic on vectors and scores.

Every method scores each image for "a and b", "a or b" and "a and not b", for pairs of classes a, b. Multiple choice
asks which of several statements is true of an image, as in NegBench.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ...concepts import (
    Approximation,
    ImageNetVocabulary,
    Meaning,
    ModelVocabulary,
    Phrase,
    WordError,
    find_vocabulary,
    truth_of,
)
from ...data import ImageSet
from ...errors import AndornotError, EvaluationError
from ...logic import Formula
from ...model import Model
from ..metrics.intervals import Interval, bootstrap
from ..metrics.ranking import average_precision, precision_at
from ..report.outcome import Outcome, Section, Table
from .operators import GalleryTruths
from .words import SPELLINGS

QUERIES: Final = ("a and b", "a or b", "a and not b")
_PHRASES: Final = ("{a} and {b}", "{a} or {b}", "{a} and no {b}")
_STATEMENTS: Final = ("a and b", "a and not b", "not a and b", "not a and not b")
_STATEMENT_PHRASES: Final = ("{a} and {b}", "{a} and no {b}", "{b} and no {a}", "no {a} and no {b}")
_EXAMPLES: Final = 3
# The number of images per pair and statement, and of images with captions, in multiple choice.
_ASKED_PER_STATEMENT, _ASKED_CAPTIONS = 5, 300

# A method returns scores `(n,)` of two classes for each of QUERIES or _STATEMENTS.
Scores = Sequence[Tensor]
Method = Callable[[int, int], Scores]


@dataclass(frozen=True)
class _Encodings:
    """The input of all methods: labels `(n, C)`, unit vectors `(n, d)`, and the scorers of words and examples."""

    names: Sequence[str]
    labels: Tensor
    vectors: Tensor
    truths: GalleryTruths
    words: ModelVocabulary | None
    evidence: Tensor


class QueryResult(NamedTuple):
    """Means over pairs with 95 % intervals: precision, average precision, and for NOT the fraction of hits with b."""

    precision: Interval
    average_precision: Interval
    rest: Interval | None


Results = dict[str, Sequence[QueryResult]]


def evaluate_logic(
    model: Model,
    images: ImageSet,
    *,
    top: int = 20,
    draws: int = 3,
    seed: int = 0,
    captions: str | Path | None = None,
) -> Outcome:
    """Evaluate AND, OR and NOT over words and examples on images with several labels.

    `captions` is a file in the format of COCO's `captions_val2017.json`, for multiple choice with captions.
    """
    if min(top, draws) < 1:
        raise EvaluationError(f"top and draws must be 1 or more, not {top} and {draws}")
    if images.labels is None:
        raise EvaluationError("logic is evaluated on labelled images, and these have no labels: try voc:PATH")
    of_file = {} if captions is None else read_captions(captions)
    encoded = _encode(model, images)
    pairs = _find_pairs(encoded.labels, top)
    if not pairs:
        raise EvaluationError(
            f"no pair of classes has {top} images with both and {top + _EXAMPLES} with each but not the other: use "
            "images with several labels each, or a smaller --top"
        )
    known = _known_meanings(encoded)
    by_word = [(a, b) for a, b in pairs if a in known and b in known]
    results: Results = {}
    choices: dict[str, float] = {}
    if by_word:
        for name, method in _word_methods(encoded, known, _PHRASES):
            results[f"words: {name}"] = _summarize(_rates(encoded.labels, by_word, method, top, {}))
        choices |= _multiple_choice(encoded, known, by_word, seed)
        if of_file:
            choices |= _caption_choice(encoded, known, images, of_file, seed)
    alone = encoded.labels & (encoded.labels.sum(1) == 1)[:, None]
    by_example = [(a, b) for a, b in pairs if min(int(alone[:, a].sum()), int(alone[:, b].sum())) >= _EXAMPLES]
    if by_example:
        results |= _measure_examples(encoded, alone, by_example, top, draws, seed)
    if not results:
        raise EvaluationError("no class has a name that is a known word, or images that show nothing else")
    return _outcome(
        model, images, results, choices, {"pairs_by_word": len(by_word), "pairs_by_example": len(by_example)}, top
    )


def _find_pairs(labels: Tensor, top: int) -> list[tuple[int, int]]:
    """Return the ordered pairs of classes with enough images that each query can have a precision of 1."""
    shown = labels.long()
    both, either = shown.T @ shown, shown.sum(0)
    apart = (either[:, None] - both).minimum(either[None] - both) >= top + _EXAMPLES
    return [(a, b) for a, b in ((both >= top) & apart).nonzero().tolist() if a != b]


def read_captions(path: str | Path) -> dict[str, list[str]]:
    """Return the captions by file name from a file in COCO's format."""
    try:
        content = json.loads(Path(path).read_bytes())
        names = {row["id"]: str(row["file_name"]) for row in content["images"]}
        found: dict[str, list[str]] = {}
        for row in content["annotations"]:
            found.setdefault(names[row["image_id"]], []).append(" ".join(str(row["caption"]).split()))
    except (ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{path}: not COCO's captions ({error!r})") from error
    return found


def _encode(model: Model, images: ImageSet) -> _Encodings:
    resized = images.resized(model.size, model.fit)
    assert resized.labels is not None, "checked by the caller"
    words: ModelVocabulary | None = find_vocabulary(model.backbone)
    evidence, activations = [], []
    for maps in model.iter_feature_maps(resized):
        activations.append(model.backbone.pool(maps).cpu())
        evidence.append(torch.empty(0) if words is None else words.evidence(maps).cpu())
    features = torch.cat(activations)
    return _Encodings(
        images.class_names,
        torch.as_tensor(resized.labels) > 0,
        normalize(features, dim=1),
        GalleryTruths(model.encode_activations(features).degrees),
        words,
        torch.cat(evidence),
    )


def _known_meanings(encoded: _Encodings) -> dict[int, Meaning]:
    """Return the meanings of the class names that are known words."""
    known = {}
    for number, name in enumerate(encoded.names if encoded.words is not None else ()):
        try:
            known[number] = encoded.words.meaning(SPELLINGS.get(name, name))  # type: ignore[union-attr]
        except WordError:
            continue
    return known


def _word_methods(
    encoded: _Encodings, known: Mapping[int, Meaning], phrases: Sequence[str]
) -> Iterator[tuple[str, Method]]:
    """Yield the methods that score words; each takes the indices of two classes."""
    words = encoded.words
    assert words is not None, "words are known"
    formulas, arithmetic = (QUERIES, _arithmetic) if phrases is _PHRASES else (_STATEMENTS, _statement_arithmetic)
    supports = {number: words.support(meaning, encoded.evidence) for number, meaning in known.items()}
    truths = {number: truth_of(supports[number], meaning.half) for number, meaning in known.items()}
    yield "conditions", lambda a, b: _combine(formulas, truths[a], truths[b])
    yield "score arithmetic", lambda a, b: arithmetic(supports[a], supports[b])
    directions = {n: meaning.direction for n, meaning in known.items() if isinstance(meaning, Phrase)}
    if directions and phrases is _PHRASES:
        yield "mean of vectors, a - b", lambda a, b: _vector_scores(encoded.evidence, directions[a], directions[b])

    def one_phrase(a: int, b: int) -> Scores:
        texts = [phrase.format(a=encoded.names[a], b=encoded.names[b]) for phrase in phrases]
        return [_truth_of_phrase(words, text, encoded.evidence) for text in texts]

    try:
        one_phrase(*tuple(known)[:2])
    except (AndornotError, ImportError):  # a vocabulary of single words
        return
    yield "one phrase", one_phrase


def _truth_of_phrase(words: ModelVocabulary, text: str, evidence: Tensor) -> Tensor:
    meaning: Meaning = words.phrase(text) if isinstance(words, ImageNetVocabulary) else words.meaning(text)
    if isinstance(meaning, Approximation):
        meaning = meaning.scaled_to(meaning.scores(evidence))
    return truth_of(words.support(meaning, evidence), meaning.half)


def _combine(formulas: Sequence[str], a: Tensor, b: Tensor) -> Scores:
    """Return the truths of formulas over a and b in product logic, as in searches."""
    return [Formula(text).truth_of_terms([a, b]) for text in formulas]


def _arithmetic(a: Tensor, b: Tensor) -> Scores:
    """Return the minimum, the maximum and the difference of two scores."""
    return [torch.minimum(a, b), torch.maximum(a, b), a - b]


def _statement_arithmetic(a: Tensor, b: Tensor) -> Scores:
    return [torch.minimum(a, b), a - b, b - a, -torch.maximum(a, b)]


def _vector_scores(vectors: Tensor, a: Tensor, b: Tensor) -> Scores:
    """Return inner products with the mean of two vectors (AND and OR), and with their difference (NOT)."""
    a, b = a.to(vectors), b.to(vectors)
    mean = vectors @ (a + b) / 2
    return [mean, mean, vectors @ (a - b)]


def _measure_examples(
    encoded: _Encodings, alone: Tensor, pairs: Sequence[tuple[int, int]], top: int, draws: int, seed: int
) -> Results:
    """Measure queries by three example images per class, which show no other class and are not ranked."""
    random = torch.Generator().manual_seed(seed)
    candidates = {number: alone[:, number].nonzero()[:, 0] for number in sorted({n for pair in pairs for n in pair})}
    measured: dict[str, list[Tensor]] = {}
    for _ in range(draws):
        rows = {n: of[torch.randperm(len(of), generator=random)[:_EXAMPLES]].tolist() for n, of in candidates.items()}
        for name, method in _example_methods(encoded, rows).items():
            measured.setdefault(f"examples: {name}", []).append(_rates(encoded.labels, pairs, method, top, rows))
    return {name: _summarize(torch.stack(rates).mean(0)) for name, rates in measured.items()}


def _example_methods(encoded: _Encodings, rows: Mapping[int, Sequence[int]]) -> dict[str, Method]:
    """Return the methods that score classes by the rows of their examples."""
    plain, truths = (
        {number: encoded.truths.of_examples(examples, expanded=expanded) for number, examples in rows.items()}
        for expanded in (False, True)
    )
    means = {number: normalize(encoded.vectors[list(examples)].mean(0), dim=0) for number, examples in rows.items()}
    cosines = {number: encoded.vectors @ mean for number, mean in means.items()}
    return {
        "conditions": lambda a, b: _combine(QUERIES, truths[a], truths[b]),
        "conditions without expansion": lambda a, b: _combine(QUERIES, plain[a], plain[b]),
        "score arithmetic": lambda a, b: _arithmetic(cosines[a], cosines[b]),
        "mean of vectors, a - b": lambda a, b: _vector_scores(encoded.vectors, means[a], means[b]),
        "mean of vectors, a - b/2": lambda a, b: _vector_scores(encoded.vectors, means[a], means[b] / 2),
    }


def _rates(
    labels: Tensor, pairs: Sequence[tuple[int, int]], method: Method, top: int, examples: Mapping[int, Sequence[int]]
) -> Tensor:
    """Return precision, average precision and the fraction of hits with b, `(pairs, queries, 3)`, without examples."""
    rows = []
    for a, b in pairs:
        ranked = torch.ones(len(labels), dtype=torch.bool)
        ranked[[*examples.get(a, ()), *examples.get(b, ())]] = False
        has_a, has_b = labels[ranked, a], labels[ranked, b]
        wanted = (has_a & has_b, has_a | has_b, has_a & ~has_b)
        scores = [score[ranked] for score in method(a, b)]
        rows.append(
            [
                [precision_at(top, score, right), average_precision(score, right), precision_at(top, score, has_b)]
                for score, right in zip(scores, wanted, strict=True)
            ]
        )
    return torch.tensor(rows)


def _summarize(rates: Tensor) -> Sequence[QueryResult]:
    return [
        QueryResult(
            bootstrap(rates[:, query, [0]]),
            bootstrap(rates[:, query, [1]]),
            bootstrap(rates[:, query, [2]]) if text == "a and not b" else None,
        )
        for query, text in enumerate(QUERIES)
    ]


def _multiple_choice(
    encoded: _Encodings, known: Mapping[int, Meaning], pairs: Sequence[tuple[int, int]], seed: int
) -> dict[str, float]:
    """Return the accuracy of choosing the true one of four statements about two classes; chance is 0.25."""
    random = torch.Generator().manual_seed(seed)
    asked = []
    for a, b in ((a, b) for a, b in pairs if a < b):
        has_a, has_b = encoded.labels[:, a], encoded.labels[:, b]
        for right, shown in enumerate((has_a & has_b, has_a & ~has_b, has_b & ~has_a, ~has_a & ~has_b)):
            rows = shown.nonzero()[:, 0]
            chosen = rows[torch.randperm(len(rows), generator=random)[:_ASKED_PER_STATEMENT]]
            asked.append((a, b, right, chosen))
    accuracies = {}
    for name, method in _word_methods(encoded, known, _STATEMENT_PHRASES):
        right_answers: list[list[float]] = [[] for _ in _STATEMENTS]
        scores: dict[tuple[int, int], Tensor] = {}
        for a, b, right, rows in asked:
            if (a, b) not in scores:
                scores = {(a, b): torch.stack(list(method(a, b)))}
            right_answers[right] += (scores[a, b][:, rows].argmax(0) == right).double().tolist()
        # Average over statements, because their numbers of images differ.
        accuracies[name] = sum(sum(answers) / len(answers) for answers in right_answers) / len(_STATEMENTS)
    return {f"words: {name}": accuracy for name, accuracy in accuracies.items()}


def _caption_choice(
    encoded: _Encodings, known: Mapping[int, Meaning], images: ImageSet, captions: Mapping[str, list[str]], seed: int
) -> dict[str, float]:
    """Return how often "the image's caption and not an absent class" has the highest score; chance is 0.25.

    The wrong choices have the caption of another image, a negated class that the image shows, or both.
    """
    words = encoded.words
    assert words is not None, "words are known"
    random = torch.Generator().manual_seed(seed)
    columns = sorted(known)
    labels = encoded.labels[:, columns]
    of_row = [captions.get(Path(name).name, ()) for name in images.names]
    rows = [row for row, own in enumerate(of_row) if own and bool(labels[row].any()) and not bool(labels[row].all())]
    if len(rows) < 2:
        raise EvaluationError("the captions are of other images: no labelled image has one")
    order = [rows[at] for at in torch.randperm(len(rows), generator=random)[:_ASKED_CAPTIONS].tolist()]

    def draw(shown: Tensor) -> str:
        numbers = shown.nonzero()[:, 0]
        return encoded.names[columns[int(numbers[torch.randint(len(numbers), (1,), generator=random)])]]

    right: dict[str, list[bool]] = {"conditions": [], "one phrase": []}
    for row, other in zip(order, [*order[1:], order[0]], strict=True):
        shown, absent = draw(labels[row]), draw(~labels[row])
        texts = [str(of_row[one][0]).rstrip(". ") for one in (row, other)]
        try:
            of_caption = [_truth_of_phrase(words, text, encoded.evidence)[row] for text in texts]
        except (AndornotError, ImportError):
            return {}
        of_class = {name: _truth_of_phrase(words, name, encoded.evidence)[row] for name in (absent, shown)}
        scores = {
            "conditions": [caption * (1 - of_class[name]) for caption in of_caption for name in (absent, shown)],
            "one phrase": [
                _truth_of_phrase(words, f"{text}, and no {name}", encoded.evidence)[row]
                for text in texts
                for name in (absent, shown)
            ],
        }
        for name, four in scores.items():
            right[name].append(int(torch.stack(four).argmax()) == 0)
    return {f"captions: {name}": sum(answers) / len(answers) for name, answers in right.items()}


def _outcome(
    model: Model, images: ImageSet, results: Results, choices: dict[str, float], counts: dict[str, int], top: int
) -> Outcome:
    best = next(iter(results))
    conjunction, _, negation = results[best]
    rows = [
        [name, *(cell for query in queries for cell in query[:2]), queries[-1].rest]
        for name, queries in results.items()
    ]
    columns = [f"{query}: {what}" for query in QUERIES for what in (f"P@{top}", "mAP")]
    table = Table(
        f"Means over pairs of classes, with 95 % intervals: P@{top} is the share of right images among the {top} best, "
        "mAP the mean average precision.",
        ["method", *columns, "a and not b: shows b"],
        rows,
        best=dict.fromkeys(columns, "high") | {"a and not b: shows b": "low"},
    )
    answers = Table("Multiple choice; chance is 0.25.", ["method", "accuracy"], [[*row] for row in choices.items()])
    return Outcome(
        "Logic over words and examples",
        f"{best}: a and b {conjunction.precision.value:.3f}, a and not b {negation.precision.value:.3f} of the {top} "
        f"best hits, over ordered pairs of classes.",
        {
            "methods": {
                name: {query: result._asdict() for query, result in zip(QUERIES, queries, strict=True)}
                for name, queries in results.items()
            },
            "multiple_choice": dict(choices),
            "rows": [
                _leaderboard_row(model, images, name, queries, choices.get(name)) for name, queries in results.items()
            ],
        },
        {"evaluation": "logic", "model": model.id, "images": len(images), "top": top, "examples": _EXAMPLES, **counts},
        [Section("AND, OR and NOT", content=[table, answers] if choices else [table])],
    )


def _leaderboard_row(
    model: Model, images: ImageSet, name: str, results: Sequence[QueryResult], choice: float | None
) -> str:
    """Return a row of the table in docs/leaderboard.md."""
    cells = [f"{result.precision.value:.3f} / {result.average_precision.value:.3f}" for result in results]
    assert results[-1].rest is not None, "the last query is a negation"
    data = f"{images.source}{f' {images.split}' if images.split else ''}, {len(images):,}"
    asked = "" if choice is None else f"{choice:.3f}"
    return f"| {data} | {model.backbone.name} | {name} | {' | '.join(cells)} | {results[-1].rest.value:.3f} | {asked} |"
