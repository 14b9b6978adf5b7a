"""The measurements of one model: the options of each, which are the library's, and its run."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final, NamedTuple

from ..data import open_images
from ..evaluate.errors import EvaluationError
from ..evaluate.experiments.degrees import degrees_outcome
from ..evaluate.experiments.knn import knn_outcome
from ..evaluate.experiments.linear import LinearSettings, linear_outcome
from ..evaluate.experiments.multilabel import MultilabelSettings, multilabel_outcome
from ..evaluate.experiments.probing import READS
from ..evaluate.experiments.protocol import Protocol, make_protocol
from ..evaluate.experiments.retrieval_report import operability_outcome
from ..evaluate.experiments.sets import gallery_and_queries, train_and_test
from ..evaluate.experiments.words import words_outcome
from ..evaluate.metrics.average_precision import VARIANTS
from ..evaluate.report.outcome import Outcome
from ..model import Model
from .experiment import add_protocol, protocol_changes
from .options import add_argument_of


class Measurement(NamedTuple):
    """Its own options, and its run."""

    add_options: Callable[[ArgumentParser], None]
    measure: Callable[[Model, Namespace], Outcome]


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


def _add_words(parser: ArgumentParser) -> None:
    add_argument_of(words_outcome, parser, "--top", "hits that count")
    add_argument_of(
        words_outcome, parser, "--draws", "times that example pictures are drawn, to compare words with them"
    )
    parser.add_argument(
        "--word",
        action="append",
        default=[],
        metavar="CLASS=WORD",
        help="ask for a class with this word instead of its name; may be repeated",
    )


def _words(model: Model, options: Namespace) -> Outcome:
    spellings = {}
    for given in options.word:
        name, equals, word = given.partition("=")
        if not equals or not name:
            raise EvaluationError(f"--word {given}: it must be CLASS=WORD, as in --word tvmonitor=television")
        spellings[name] = word
    return words_outcome(
        model,
        open_images(options.data),
        top=options.top,
        spellings=spellings,
        draws=options.draws,
        seed=options.seed,
    )


MEASUREMENTS: Final = {
    "knn": Measurement(_add_knn, _knn),
    "linear": Measurement(_add_linear, _linear),
    "multilabel": Measurement(_add_multilabel, _multilabel),
    "degrees": Measurement(_add_degrees, _degrees),
    "operability": Measurement(add_protocol, _operability),
    "words": Measurement(_add_words, _words),
}
