"""`andornot evaluate`: evaluations of one model."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..errors import EvaluationError, require_packages
from .options import Help, add_argument_of, add_device, add_json, examples

DESCRIPTION: Final = """\
Evaluate one model, or compare finished runs. Writes result.json, report.html, and the folder export
with tables as CSV and LaTeX and charts as SVG and PDF."""
EXAMPLES: Final = (
    "andornot evaluate knn --model model/ --data digits -o knn/",
    "andornot evaluate operability --model model/ --data voc:/data/VOCdevkit -o out/",
    "andornot evaluate compare runs/logic-0 runs/logic-1 runs/mean-0 runs/mean-1 -o out/",
)


class Evaluation(NamedTuple):
    """Help text of an evaluation, and a data source for its example."""

    help: str
    example: str


COMPARE: Final = "compare"
EVALUATIONS: Final = {
    "knn": Evaluation("accuracy of a k-nearest-neighbour vote, without training", "digits"),
    "linear": Evaluation("accuracy of a linear layer on the frozen backbone (Table 1)", "cifar10:/data/cifar10"),
    "multilabel": Evaluation(
        "mean average precision of a linear layer on the frozen backbone (Table 2)", "voc:/data/VOCdevkit"
    ),
    "degrees": Evaluation("what features stand for: images, classes, objects (Sec. V-D)", "voc:/data/VOCdevkit"),
    "operability": Evaluation("retrieval with OR, AND and NOT (Sec. V-E)", "digits"),
    "words": Evaluation("class names as queries", "voc:/data/VOCdevkit"),
    "logic": Evaluation("AND, OR and NOT over words and examples, against arithmetic", "voc:/data/VOCdevkit"),
}


def add_options(parser: ArgumentParser) -> None:
    """Add a subcommand for each evaluation."""
    kinds = parser.add_subparsers(title="evaluations", metavar="WHAT", required=True, parser_class=_EvaluationParser)
    for name, evaluation in EVALUATIONS.items():
        kind = kinds.add_parser(
            name,
            help=evaluation.help,
            description=f"{evaluation.help[0].upper()}{evaluation.help[1:]}.",
            epilog=examples(f"andornot evaluate {name} --model model/ --data {evaluation.example} -o {name}/"),
            formatter_class=Help,
            allow_abbrev=False,
        )
        kind.set_defaults(evaluation=name)
    compare = kinds.add_parser(
        COMPARE,
        help="finished runs: one table, with paired differences",
        description="Compare finished runs: models by the end of their log.csv, or evaluations by their result.json. "
        "Folders are named METHOD-SEED; runs of the same seed are paired.",
        epilog=examples("andornot evaluate compare runs/* -o comparison/"),
        formatter_class=Help,
        allow_abbrev=False,
    )
    compare.set_defaults(evaluation=COMPARE)


class _EvaluationParser(ArgumentParser):
    """Adds its options only when it parses, because their defaults come from modules that import torch."""

    def parse_known_args(self, *arguments: Any) -> Any:  # type: ignore[override]
        """Add the options, then parse."""
        if self.get_default("evaluation") == COMPARE:
            self.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a model or an evaluation")
            self.add_argument("-o", "--output", type=Path, required=True, help="folder for the comparison")
            self.add_argument(
                "--reference", metavar="METHOD", help="what the others are compared with (default: first)"
            )
            add_json(self, "the metrics")
            return super().parse_known_args(*arguments)
        from ..evaluate.experiments.config import RetrievalConfig
        from .measurements import RUNNERS

        self.add_argument("--model", type=Path, help="folder of the model (default: the photo model)")
        self.add_argument("--data", required=True, metavar="SOURCE", help="labelled images, as for pretrain")
        self.add_argument("-o", "--output", type=Path, required=True, help="folder for result.json and report.html")
        add_argument_of(RetrievalConfig, self, "--seed", "random seed")
        add_device(self)
        add_json(self, "the metrics")
        RUNNERS[self.get_default("evaluation")].add_options(self)
        return super().parse_known_args(*arguments)


def run(options: Namespace) -> None:
    """Evaluate, write `result.json` and `report.html`, and print a summary."""
    from ..evaluate.experiments.sets import attribution
    from ..evaluate.report.writing import write_outcome
    from ..model import Model
    from .experiment import print_outcome
    from .measurements import RUNNERS

    require_packages("andornot evaluate", "matplotlib")
    if options.evaluation == COMPARE:
        from ..evaluate.experiments.comparing import compare_runs

        outcome = compare_runs(options.runs, options.reference)
        write_outcome(options.output, outcome, settings={"command": options.command}, seed=None, seconds=0)
        print_outcome(outcome, options.output, as_json=options.json)
        return
    if not 0 <= options.seed < 2**63:
        raise EvaluationError(f"--seed {options.seed}: it must be 0 or more, and below 2^63")
    start = time.perf_counter()
    model = Model.pretrained() if options.model is None else Model.load(options.model)
    outcome = RUNNERS[options.evaluation].evaluate(model.to(options.device), options)
    settings = {
        key: value for key, value in vars(options).items() if key not in ("run", "evaluation", "json", "output")
    }
    settings |= attribution(options.data)
    write_outcome(options.output, outcome, settings=settings, seed=options.seed, seconds=time.perf_counter() - start)
    print_outcome(outcome, options.output, as_json=options.json)
