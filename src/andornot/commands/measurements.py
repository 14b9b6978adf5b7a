"""Options and functions of the evaluations. Separate from `evaluate`, because it imports torch."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final, NamedTuple

from ..data import open_images
from ..errors import EvaluationError
from ..evaluate.experiments.config import RetrievalConfig, change_config
from ..evaluate.experiments.degrees import evaluate_degrees
from ..evaluate.experiments.leaderboard import evaluate_logic
from ..evaluate.experiments.linear import LinearConfig, evaluate_knn, evaluate_linear
from ..evaluate.experiments.multilabel import MultilabelConfig, evaluate_multilabel
from ..evaluate.experiments.probing import PROBE_INPUTS
from ..evaluate.experiments.retrieval_report import evaluate_operability
from ..evaluate.experiments.sets import gallery_and_queries, train_and_test
from ..evaluate.experiments.words import evaluate_words
from ..evaluate.metrics.ranking import VARIANTS
from ..evaluate.report.outcome import Outcome
from ..model import Model
from .experiment import add_retrieval_options, retrieval_changes
from .options import add_argument_of


class EvaluationRunner(NamedTuple):
    """Options of an evaluation, and the function that runs it."""

    add_options: Callable[[ArgumentParser], None]
    evaluate: Callable[[Model, Namespace], Outcome]


def _add_knn(parser: ArgumentParser) -> None:
    add_argument_of(evaluate_knn, parser, "-k", "number of neighbours")
    add_argument_of(evaluate_knn, parser, "--temperature", "temperature T of the vote exp(cosine / T)")


def _knn(model: Model, options: Namespace) -> Outcome:
    return evaluate_knn(model, *train_and_test(options.data), k=options.k, temperature=options.temperature)


def _add_linear(parser: ArgumentParser) -> None:
    _add_probe_options(LinearConfig, parser)


def _linear(model: Model, options: Namespace) -> Outcome:
    config = LinearConfig(
        epochs=options.epochs, cached=options.cached, probe_input=options.probe_input, seed=options.seed
    )
    return evaluate_linear(model, *train_and_test(options.data), config)


def _add_multilabel(parser: ArgumentParser) -> None:
    _add_probe_options(MultilabelConfig, parser)
    add_argument_of(MultilabelConfig, parser, "--cached-views", "with --cached: crops per image", metavar="V")
    add_argument_of(
        MultilabelConfig, parser, "--ap", "variant of average precision", argument="variant", choices=VARIANTS
    )


def _multilabel(model: Model, options: Namespace) -> Outcome:
    config = MultilabelConfig(
        epochs=options.epochs,
        cached=options.cached,
        cached_views=options.cached_views,
        variant=options.ap,
        probe_input=options.probe_input,
        seed=options.seed,
    )
    return evaluate_multilabel(model, *train_and_test(options.data), config)


def _add_probe_options(config: type[LinearConfig | MultilabelConfig], parser: ArgumentParser) -> None:
    add_argument_of(config, parser, "--epochs", "epochs of the linear layer")
    add_argument_of(config, parser, "--cached", "compute inputs once, without augmentation: quick on a CPU")
    add_argument_of(
        config,
        parser,
        "--probe-input",
        "input of the linear layer: the backbone's activations, as in the paper, or possession degrees",
        choices=PROBE_INPUTS,
    )


def _add_degrees(parser: ArgumentParser) -> None:
    add_argument_of(evaluate_degrees, parser, "--top", "images shown for each feature")
    add_argument_of(evaluate_degrees, parser, "--features", "features shown")


def _degrees(model: Model, options: Namespace) -> Outcome:
    return evaluate_degrees(
        model, open_images(options.data), top=options.top, features=options.features, seed=options.seed
    )


def _operability(model: Model, options: Namespace) -> Outcome:
    config = change_config(RetrievalConfig(seed=options.seed), retrieval_changes(options))
    return evaluate_operability(model, *gallery_and_queries(options.data), config)


def _add_words(parser: ArgumentParser) -> None:
    add_argument_of(evaluate_words, parser, "--top", "hits that count")
    add_argument_of(evaluate_words, parser, "--draws", "draws of example images to compare words with")
    parser.add_argument(
        "--word",
        action="append",
        default=[],
        metavar="CLASS=WORD",
        help="use this word for a class instead of its name; may be repeated",
    )


def _words(model: Model, options: Namespace) -> Outcome:
    spellings = {}
    for given in options.word:
        name, equals, word = given.partition("=")
        if not equals or not name:
            raise EvaluationError(f"--word {given}: it must be CLASS=WORD, as in --word tvmonitor=television")
        spellings[name] = word
    return evaluate_words(
        model,
        open_images(options.data),
        top=options.top,
        spellings=spellings,
        draws=options.draws,
        seed=options.seed,
    )


def _add_logic(parser: ArgumentParser) -> None:
    add_argument_of(evaluate_logic, parser, "--top", "hits that count")
    add_argument_of(evaluate_logic, parser, "--draws", "draws of example images")
    parser.add_argument("--captions", metavar="FILE", help="captions for multiple choice, in the form of COCO's")


def _logic(model: Model, options: Namespace) -> Outcome:
    images = gallery_and_queries(options.data)[0]
    outcome = evaluate_logic(
        model, images, top=options.top, draws=options.draws, seed=options.seed, captions=options.captions
    )
    if not options.json:
        print(*outcome.metrics["rows"], sep="\n")
    return outcome


RUNNERS: Final = {
    "knn": EvaluationRunner(_add_knn, _knn),
    "linear": EvaluationRunner(_add_linear, _linear),
    "multilabel": EvaluationRunner(_add_multilabel, _multilabel),
    "degrees": EvaluationRunner(_add_degrees, _degrees),
    "operability": EvaluationRunner(add_retrieval_options, _operability),
    "words": EvaluationRunner(_add_words, _words),
    "logic": EvaluationRunner(_add_logic, _logic),
}
