"""`andornot evaluate`: which measurements of one model there are, with their options, and how each is run."""

import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..data import open_images
from ..evaluate.errors import EvaluationError
from ..evaluate.experiments.degrees import degrees_outcome
from ..evaluate.experiments.knn import knn_outcome
from ..evaluate.experiments.linear import LinearSettings, linear_outcome
from ..evaluate.experiments.multilabel import MultilabelSettings, multilabel_outcome
from ..evaluate.experiments.probing import READS
from ..evaluate.experiments.retrieval import Protocol, make_protocol
from ..evaluate.experiments.retrieval_report import operability_outcome
from ..evaluate.experiments.sets import attribution, gallery_and_queries, train_and_test
from ..evaluate.metrics.average_precision import VARIANTS
from ..evaluate.report.outcome import Outcome
from ..evaluate.report.writing import write_outcome
from ..model import Model
from .experiment import add_protocol, print_outcome, protocol_changes
from .options import add_argument_of, add_json, examples

DESCRIPTION: Final = "Measures one model, and writes result.json and report.html into the output folder."
EXAMPLES: Final = (
    "andornot evaluate knn --model model/ --data digits -o knn/",
    "andornot evaluate operability --model model/ --data voc:/data/VOCdevkit -o operability/ --enough 60",
)


@dataclass(frozen=True)
class Evaluation:
    """A measurement of one model: its own options, and its run."""

    help: str
    example: str
    add_options: Callable[[ArgumentParser], None]
    measure: Callable[[Model, Namespace], Outcome]


def add_options(parser: ArgumentParser) -> None:
    """A command of its own for each measurement."""
    kinds = parser.add_subparsers(title="measurements", metavar="WHAT", required=True)
    for name, evaluation in EVALUATIONS.items():
        kind = kinds.add_parser(
            name,
            help=evaluation.help,
            description=f"{evaluation.help[0].upper()}{evaluation.help[1:]}.",
            epilog=examples(f"andornot evaluate {name} --model model/ --data {evaluation.example} -o {name}/"),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        kind.add_argument("--model", type=Path, required=True, help="folder of the model")
        kind.add_argument("--data", required=True, metavar="SOURCE", help="labelled pictures, as for pretrain")
        kind.add_argument("-o", "--output", type=Path, required=True, help="folder for result.json and report.html")
        add_argument_of(Protocol, kind, "--seed", "of everything that is drawn")
        add_json(kind, "the figures")
        evaluation.add_options(kind)
        kind.set_defaults(evaluation=name)


def run(options: Namespace) -> None:
    """Measures, writes `result.json` and `report.html`, and prints what came of it."""
    if not 0 <= options.seed < 2**63:
        raise EvaluationError(f"--seed {options.seed}: it must be 0 or more, and below 2^63")
    start = time.perf_counter()
    outcome = EVALUATIONS[options.evaluation].measure(Model.load(options.model), options)
    settings = {
        key: value for key, value in vars(options).items() if key not in ("run", "evaluation", "json", "output")
    }
    settings |= attribution(options.data)
    write_outcome(options.output, outcome, settings=settings, seed=options.seed, seconds=time.perf_counter() - start)
    print_outcome(outcome, options.output, as_json=options.json)


def _add_knn(parser: ArgumentParser) -> None:
    add_argument_of(knn_outcome, parser, "-k", "neighbours")
    add_argument_of(knn_outcome, parser, "--temperature", "of the vote exp(cosine / T)")


def _knn(model: Model, options: Namespace) -> Outcome:
    return knn_outcome(model, *train_and_test(options.data), k=options.k, temperature=options.temperature)


def _add_linear(parser: ArgumentParser) -> None:
    _add_layer(LinearSettings, parser)


def _linear(model: Model, options: Namespace) -> Outcome:
    settings = LinearSettings(epochs=options.epochs, cached=options.cached, reads=options.reads, seed=options.seed)
    return linear_outcome(model, *train_and_test(options.data), settings)


def _add_multilabel(parser: ArgumentParser) -> None:
    _add_layer(MultilabelSettings, parser)
    add_argument_of(
        MultilabelSettings, parser, "--cached-views", "with --cached: crops kept of each picture", metavar="V"
    )
    add_argument_of(MultilabelSettings, parser, "--ap", "which average precision", argument="variant", choices=VARIANTS)


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


def _add_layer(settings: type[LinearSettings | MultilabelSettings], parser: ArgumentParser) -> None:
    add_argument_of(settings, parser, "--epochs", "of the linear layer")
    add_argument_of(settings, parser, "--cached", "compute features once, without augmentation: quick on a CPU")
    add_argument_of(
        settings,
        parser,
        "--reads",
        "what the layer reads: the backbone's features, as in the paper, or possession degrees",
        choices=READS,
    )


def _add_degrees(parser: ArgumentParser) -> None:
    add_argument_of(degrees_outcome, parser, "--top", "pictures shown of each feature")
    add_argument_of(degrees_outcome, parser, "--features", "features shown")


def _degrees(model: Model, options: Namespace) -> Outcome:
    return degrees_outcome(
        model, open_images(options.data), top=options.top, features=options.features, seed=options.seed
    )


def _operability(model: Model, options: Namespace) -> Outcome:
    protocol = make_protocol(Protocol(seed=options.seed), protocol_changes(options))
    return operability_outcome(model, *gallery_and_queries(options.data), protocol)


EVALUATIONS: Final = {
    "knn": Evaluation(
        "accuracy of a vote of the nearest neighbours, without training anything", "digits", _add_knn, _knn
    ),
    "linear": Evaluation(
        "accuracy of a linear layer on the frozen backbone (Table 1)", "cifar10:/data/cifar10", _add_linear, _linear
    ),
    "multilabel": Evaluation(
        "mean average precision of a linear layer on the frozen backbone (Table 2)",
        "voc:/data/VOCdevkit",
        _add_multilabel,
        _multilabel,
    ),
    "degrees": Evaluation(
        "what the features stand for: pictures, classes, objects (Sec. V-D)",
        "voc:/data/VOCdevkit",
        _add_degrees,
        _degrees,
    ),
    "operability": Evaluation(
        "whether OR, AND and NOT find what they should (Sec. V-E)", "digits", add_protocol, _operability
    ),
}
