"""`andornot reproduce`: the paper's experiments."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from ..errors import Stopped
from ..evaluate.errors import EvaluationError
from ..reproduce.catalogue import DEFAULT_SCALE, EVERYTHING, EXPERIMENTS, Scale
from .experiment import add_protocol, print_outcome, protocol_changes
from .options import add_changes, add_json

if TYPE_CHECKING:
    from ..evaluate.report.outcome import Outcome

_LISTED: Final = {
    **{name: experiment.help for name, experiment in EXPERIMENTS.items()},
    EVERYTHING: "all of these, and a page that says what holds",
}
DESCRIPTION: Final = "\n".join(
    [
        "Trains what an experiment needs, measures it, and writes result.json and report.html into the",
        "output folder. Stopped, the same command goes on where it was.",
        "",
        *(f"  {name:<21}{summary}" for name, summary in _LISTED.items()),
    ]
)
EXAMPLES: Final = (
    "andornot reproduce mnist-retrieval -o out/",
    "andornot reproduce mnist-retrieval --data mnist:/data/mnist -o out/",
    "andornot reproduce classification --data cifar10:/data --scale paper -o out/",
    "andornot reproduce all --data mnist:/data/mnist --data voc:/data/VOCdevkit -o out/",
)


def add_options(parser: ArgumentParser) -> None:
    """Which experiment, on which pictures, how large."""
    parser.add_argument("experiment", metavar="EXPERIMENT", choices=list(_LISTED), help="one of those above")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for models, result and report")
    parser.add_argument(
        "--data",
        metavar="SOURCE",
        action="append",
        default=[],
        help="labelled pictures (default: embedded ones); for all it may be repeated: each goes where it belongs",
    )
    parser.add_argument("--pretrain-data", metavar="SOURCE", help="pictures to pretrain on (default: those of --data)")
    parser.add_argument(
        "--scale",
        choices=get_args(Scale),
        default=DEFAULT_SCALE,
        help="small: minutes on two cores; paper: as printed (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds",
        metavar="K",
        action="append",
        help="trainings of each model, with the seeds 0 to K-1; LABEL=K for one of them, 0 for none (may be repeated)",
    )
    add_changes(parser)
    add_json(parser, "the figures")
    add_protocol(parser.add_argument_group("retrieval", "instead of the numbers of the scale"))


def run(options: Namespace) -> None:
    """Reproduces one or all, and prints what came of it."""
    try:
        outcome = _reproduce(options)
    except Stopped as stopped:
        raise Stopped(f"{stopped}; the same command goes on") from None
    print_outcome(outcome, options.output, as_json=options.json)


def _reproduce(options: Namespace) -> Outcome:
    from ..reproduce import reproduce, reproduce_all

    how: dict[str, Any] = {
        "pretrain_data": options.pretrain_data,
        "scale": options.scale,
        "seeds": options.seeds,
        "changes": options.changes,
        "protocol": protocol_changes(options),
        "command": options.command,
    }
    if options.experiment == EVERYTHING:
        return reproduce_all(options.output, data=options.data, **how)
    if len(options.data) > 1:
        raise EvaluationError(f"--data {options.data[1]}: {options.experiment} takes one source, and has one")
    return reproduce(options.experiment, options.output, data=next(iter(options.data), None), **how)
