"""`andornot reproduce`: the paper's experiments."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from ..errors import EvaluationError, Stopped, require_packages
from ..reproduce.catalogue import ALL, DEFAULT_SCALE, EXPERIMENTS, Scale
from .experiment import add_retrieval_options, print_outcome, retrieval_changes
from .options import add_changes, add_json

if TYPE_CHECKING:
    from ..evaluate.report.outcome import Outcome

_LISTED: Final = {
    **{name: experiment.help for name, experiment in EXPERIMENTS.items()},
    ALL: "all of these, and a page on which claims hold",
}
DESCRIPTION: Final = "\n".join(
    [
        "Train the models of an experiment, evaluate them, and write result.json and report.html to the",
        "output folder. If interrupted, rerun to resume.",
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
    """Add the options."""
    parser.add_argument("experiment", metavar="EXPERIMENT", choices=list(_LISTED), help="see above")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for models, result and report")
    parser.add_argument(
        "--data",
        metavar="SOURCE",
        action="append",
        default=[],
        help="labelled images (default: embedded images); may be repeated for all: each experiment uses what suits it",
    )
    parser.add_argument("--pretrain-data", metavar="SOURCE", help="images to pretrain on (default: --data)")
    parser.add_argument(
        "--scale",
        choices=get_args(Scale),
        default=DEFAULT_SCALE,
        help="small: minutes on two cores; paper: as in the paper (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds",
        metavar="K",
        action="append",
        help="runs of each model, with seeds 0 to K-1; LABEL=K for one model, 0 for none; may be repeated",
    )
    add_changes(parser)
    add_json(parser, "the metrics")
    add_retrieval_options(parser.add_argument_group("retrieval", "replace the numbers of the scale"))


def run(options: Namespace) -> None:
    """Reproduce one experiment or all, and print a summary."""
    require_packages("andornot reproduce", "lightning", "matplotlib", "scipy")
    try:
        outcome = _reproduce(options)
    except Stopped as stopped:
        raise Stopped(f"{stopped}; rerun to resume") from None
    print_outcome(outcome, options.output, as_json=options.json)


def _reproduce(options: Namespace) -> Outcome:
    from ..reproduce import reproduce, reproduce_all

    how: dict[str, Any] = {
        "pretrain_data": options.pretrain_data,
        "scale": options.scale,
        "seeds": options.seeds,
        "changes": options.changes,
        "retrieval": retrieval_changes(options),
        "command": options.command,
    }
    if options.experiment == ALL:
        return reproduce_all(options.output, data=options.data, **how)
    if len(options.data) > 1:
        raise EvaluationError(f"--data {options.data[1]}: {options.experiment} takes one source")
    return reproduce(options.experiment, options.output, data=next(iter(options.data), None), **how)
