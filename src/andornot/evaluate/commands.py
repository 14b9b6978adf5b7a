"""`andornot evaluate`: which measurements there are, with their options, and how each is run."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..data import open_images
from ..model import Model
from .average_precision import VARIANTS
from .degrees import degrees_outcome
from .linear import LinearSettings, linear_outcome
from .multilabel import MultilabelSettings, multilabel_outcome
from .neighbours import knn_outcome
from .outcome import EvaluationError, Outcome
from .probing import READS
from .report import write_outcome
from .retrieval import Protocol, make_protocol
from .retrieval_report import operability_outcome
from .sets import attribution, gallery_and_queries, train_and_test


class Option:
    """An option of a measurement, as argparse takes it."""

    def __init__(self, *flags: str, help: str, **how: Any) -> None:  # noqa: A002 - argparse's word
        self.flags, self.help, self.how = flags, help, how


@dataclass(frozen=True)
class Evaluation:
    """A measurement of one model."""

    run: Callable[[Model, Namespace], Outcome]
    help: str
    example: str
    options: tuple[Option, ...]


def _knn(model: Model, options: Namespace) -> Outcome:
    return knn_outcome(model, *train_and_test(options.data), k=options.k, temperature=options.temperature)


def _linear(model: Model, options: Namespace) -> Outcome:
    settings = LinearSettings(epochs=options.epochs, cached=options.cached, reads=options.reads, seed=options.seed)
    return linear_outcome(model, *train_and_test(options.data), settings)


def _multilabel(model: Model, options: Namespace) -> Outcome:
    settings = MultilabelSettings(
        epochs=options.epochs,
        cached=options.cached,
        cached_views=options.cached_views,
        variant=options.ap,
        reads=options.reads,
        seed=options.seed,
    )
    return multilabel_outcome(model, *train_and_test(options.data), settings)


def _degrees(model: Model, options: Namespace) -> Outcome:
    return degrees_outcome(
        model, open_images(options.data), top=options.top, features=options.features, seed=options.seed
    )


def _operability(model: Model, options: Namespace) -> Outcome:
    protocol = make_protocol(Protocol(seed=options.seed), protocol_changes(options))
    return operability_outcome(model, *gallery_and_queries(options.data), protocol)


_CACHED: Final = Option(
    "--cached", action="store_true", help="compute features once, without augmentation: quick on a CPU"
)
_READS: Final = Option(
    "--reads",
    choices=READS,
    default="backbone",
    help="what the layer reads: the backbone's features, as in the paper, or possession degrees (default: backbone)",
)

# The default is the paper's number for `evaluate`, and that of the scale for `reproduce`.
PROTOCOL_OPTIONS: Final = (
    Option("--pictures", type=int, help="query pictures of a class or pair (the paper: 30)"),
    Option("--top", type=int, help="hits that count (the paper: 50)"),
    Option(
        "--gallery",
        type=int,
        help="pictures searched of each class, 0 for all (the paper: 200; sets with one class each: all)",
    ),
    Option("--enough", type=int, help="pictures with no other class, that a class needs (the paper: 200)"),
    Option("--fewest", type=int, help="pictures with exactly two classes, that a pair needs (default: 5)"),
)


def protocol_changes(options: Namespace) -> dict[str, int]:
    """The numbers of the protocol that were given."""
    names = [option.flags[0].removeprefix("--") for option in PROTOCOL_OPTIONS]
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


EVALUATIONS: Final = {
    "knn": Evaluation(
        _knn,
        "accuracy of a vote of the nearest neighbours, without training anything",
        "digits",
        (
            Option("-k", type=int, default=20, help="neighbours (default: 20)"),
            Option("--temperature", type=float, default=0.07, help="of the vote exp(cosine / T) (default: 0.07)"),
        ),
    ),
    "linear": Evaluation(
        _linear,
        "accuracy of a linear layer on the frozen backbone (Table 1)",
        "cifar10:/data/cifar10",
        (Option("--epochs", type=int, default=200, help="of the linear layer (default: 200)"), _CACHED, _READS),
    ),
    "multilabel": Evaluation(
        _multilabel,
        "mean average precision of a linear layer on the frozen backbone (Table 2)",
        "voc:/data/VOCdevkit",
        (
            Option("--epochs", type=int, default=500, help="of the linear layer (default: 500)"),
            _CACHED,
            _READS,
            Option(
                "--cached-views", type=int, default=0, metavar="V", help="with --cached: crops kept of each picture"
            ),
            Option("--ap", choices=VARIANTS, default="plain", help="which average precision (default: plain)"),
        ),
    ),
    "degrees": Evaluation(
        _degrees,
        "what the features stand for: pictures, classes, objects (Sec. V-D)",
        "voc:/data/VOCdevkit",
        (
            Option("--top", type=int, default=5, help="pictures shown of each feature (default: 5)"),
            Option("--features", type=int, default=6, help="features shown (default: 6)"),
        ),
    ),
    "operability": Evaluation(
        _operability,
        "whether OR, AND and NOT find what they should (Sec. V-E)",
        "digits",
        PROTOCOL_OPTIONS,
    ),
}


def evaluate(name: str, options: Namespace, *, command: str | None = None) -> Outcome:
    """Measures as the options say, and writes `result.json` and `report.html`."""
    if not 0 <= options.seed < 2**63:
        raise EvaluationError(f"--seed {options.seed}: it must be 0 or more, and below 2^63")
    start = time.perf_counter()
    outcome = EVALUATIONS[name].run(Model.load(options.model), options)
    settings = {
        key: value for key, value in vars(options).items() if key not in ("run", "evaluation", "json", "output")
    }
    settings |= {**attribution(options.data), **({"command": command} if command else {})}
    write_outcome(options.output, outcome, settings=settings, seed=options.seed, seconds=time.perf_counter() - start)
    return outcome
