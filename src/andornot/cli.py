"""`andornot …`: parses, calls, prints. A user's mistake is one clear line and exit code 2."""

import argparse
import json
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 done, 2 wrong usage or input, 130 stopped."""
    options = _parser().parse_args(arguments)
    warnings.showwarning = _show_warning
    try:
        options.run(options)
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}")
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        return _fail(str(error), code)
    return 0


def _exit_code(error: Exception) -> int | None:
    """What an error means for the shell; None for one that is ours and deserves its traceback."""
    from .data import DataError
    from .evaluate.outcome import EvaluationError
    from .logic import FormulaError
    from .model import ModelError
    from .pretraining import PretrainingError
    from .ssl.checkpoint import CheckpointError
    from .ssl.recipe import RecipeError
    from .ssl.training import Stopped, TrainingError

    if isinstance(error, Stopped):
        return 130
    mistakes = (
        CheckpointError,
        DataError,
        EvaluationError,
        FormulaError,
        ModelError,
        PretrainingError,
        RecipeError,
        TrainingError,
    )
    # Backbones name the package to install, or the known names, in ImportErrors and ValueErrors of their own.
    raised_by_backbones = isinstance(error, ImportError | ValueError) and "/ssl/backbones/" in _raised_in(error)
    return 2 if isinstance(error, mistakes) or raised_by_backbones else None


def _raised_in(error: Exception) -> str:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename.replace("\\", "/") if traceback else ""


def _fail(message: str, code: int = 2) -> int:
    print(f"andornot: {message}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"andornot: warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="andornot", description="Image representations that you can compute with: a | b, a & b, ~a."
    )
    parser.add_argument("--version", action="version", version=f"andornot {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_pretrain(commands)
    _add_evaluate(commands)
    _add_reproduce(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="the main job on embedded data, in a few minutes",
        description="Works an example of OR, AND and NOT, pretrains on real digits, and searches held-out digits with "
        "formulas. Pictures of all that go to the output folder. A model that is there already is used again.",
        epilog="example: andornot demo -o demo/",
    )
    demo.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder for the results (default: demo/)")
    demo.set_defaults(run=_demo)


def _add_pretrain(commands: Any) -> None:
    pretrain = commands.add_parser(
        "pretrain",
        help="make a model of pictures, without labels",
        description="Makes a model: calibrated on a folder of photos in a minute, or trained as in the paper.\n"
        "SOURCE is a folder of pictures, or digits, scenes, mnist:PATH, cifar10:PATH, imagefolder:PATH,\n"
        "voc:PATH, coco:PATH; options follow as ?key=value&key=value.",
        epilog="examples: andornot pretrain photos/ -o model/\n"
        "          andornot pretrain mnist:/data/mnist -o model/ --recipe mnist-paper --set epochs=20",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    pretrain.add_argument("source", metavar="SOURCE", help="where the pictures come from")
    pretrain.add_argument("-o", "--output", type=Path, required=True, help="folder for the model")
    pretrain.add_argument("--recipe", help="name or YAML file (default: digits for digits and mnist, else photos)")
    pretrain.add_argument(
        "--set", dest="changes", metavar="KEY=VALUE", action="append", default=[], help="change a setting of the recipe"
    )
    existing = pretrain.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="go on with the unfinished training in the folder")
    existing.add_argument("--overwrite", action="store_true", help="replace what is in the folder")
    pretrain.add_argument("--strict", action="store_true", help="a picture that cannot be read is an error")
    pretrain.add_argument("--tensorboard", action="store_true", help="log for TensorBoard as well")
    pretrain.add_argument("--json", action="store_true", help="print a summary for programs")
    pretrain.set_defaults(run=_pretrain)


def _add_evaluate(commands: Any) -> None:
    from .evaluate.commands import EVALUATIONS

    evaluate = commands.add_parser(
        "evaluate",
        help="measure a model on labelled pictures",
        description="Measures one model, and writes result.json and report.html into the output folder.",
        epilog="examples: andornot evaluate knn --model model/ --data digits -o knn/\n"
        "          andornot evaluate operability --model model/ --data voc:/data/VOCdevkit -o operability/ --enough 60",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = evaluate.add_subparsers(title="measurements", metavar="WHAT", required=True)
    for name, evaluation in EVALUATIONS.items():
        kind = kinds.add_parser(
            name,
            help=evaluation.help,
            description=f"{evaluation.help[0].upper()}{evaluation.help[1:]}.",
            epilog=f"example: andornot evaluate {name} --model model/ --data {evaluation.example} -o {name}/",
        )
        kind.add_argument("--model", type=Path, required=True, help="folder of the model")
        kind.add_argument("--data", required=True, metavar="SOURCE", help="labelled pictures, as for pretrain")
        kind.add_argument("-o", "--output", type=Path, required=True, help="folder for result.json and report.html")
        kind.add_argument("--seed", type=int, default=0, help="of everything that is drawn (default: 0)")
        kind.add_argument("--json", action="store_true", help="print the figures for programs")
        for option in evaluation.options:
            kind.add_argument(*option.flags, help=option.help, **option.how)
        kind.set_defaults(run=_evaluate, evaluation=name)


def _add_reproduce(commands: Any) -> None:
    from .reproduce import EXPERIMENTS

    listed = "\n".join(f"  {name:<18}{experiment.help}" for name, experiment in EXPERIMENTS.items())
    reproduce = commands.add_parser(
        "reproduce",
        help="repeat an experiment of the paper",
        description="Trains what an experiment needs, measures it, and writes result.json and report.html into the\n"
        f"output folder. Stopped, the same command goes on where it was.\n\n{listed}",
        epilog="examples: andornot reproduce mnist-retrieval -o out/\n"
        "          andornot reproduce mnist-retrieval --data mnist:/data/mnist -o out/\n"
        "          andornot reproduce classification --data cifar10:/data --scale paper -o out/",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reproduce.add_argument("experiment", metavar="EXPERIMENT", choices=EXPERIMENTS, help="one of those above")
    reproduce.add_argument("-o", "--output", type=Path, required=True, help="folder for models, result and report")
    reproduce.add_argument("--data", metavar="SOURCE", help="labelled pictures (default: embedded ones)")
    reproduce.add_argument(
        "--pretrain-data", metavar="SOURCE", help="multilabel: pictures to pretrain on (default: those of --data)"
    )
    reproduce.add_argument(
        "--scale", choices=("small", "paper"), default="small", help="small: minutes on two cores; paper: as printed"
    )
    reproduce.add_argument("--seeds", type=int, metavar="K", help="runs of each setting (default: 2 small, 8 paper)")
    reproduce.add_argument(
        "--set", dest="changes", metavar="KEY=VALUE", action="append", default=[], help="change a setting of the recipe"
    )
    reproduce.add_argument("--json", action="store_true", help="print the figures for programs")
    reproduce.set_defaults(run=_reproduce)


def _demo(options: argparse.Namespace) -> None:
    from . import demo

    demo.run(options.output)


def _pretrain(options: argparse.Namespace) -> None:
    from .data import open_images
    from .pretraining import default_recipe, pretrain
    from .ssl.distributed import is_first_process
    from .ssl.recipe import load_recipe
    from .ssl.training import Stopped

    recipe = load_recipe(options.recipe or default_recipe(options.source), options.changes)
    images = open_images(options.source)
    test_images = None
    if {"train", "test"} <= set(images.splits) and images.split is None:
        test_images = open_images(options.source, split="test")
        images = open_images(options.source, split="train")
    try:
        model = pretrain(
            images,
            options.output,
            recipe,
            test_images=test_images,
            resume=options.resume,
            overwrite=options.overwrite,
            strict=options.strict,
            tensorboard=options.tensorboard,
        )
    except Stopped as stopped:
        raise Stopped(f"{stopped}; the same command with --resume goes on") from None
    if not is_first_process():
        return
    summary = {"model": str(options.output), "id": model.id, "pictures": len(images)}
    summary |= {"num_features": model.num_features, "num_values": model.num_values}
    print(json.dumps(summary) if options.json else f"{model} of {len(images):,} pictures is in {options.output}")


def _evaluate(options: argparse.Namespace) -> None:
    from .evaluate.commands import evaluate

    outcome = evaluate(options.evaluation, options, command=_command())
    _print_outcome(options, outcome)


def _reproduce(options: argparse.Namespace) -> None:
    from .reproduce import reproduce
    from .ssl.training import Stopped

    try:
        outcome = reproduce(
            options.experiment,
            options.output,
            data=options.data,
            pretrain_data=options.pretrain_data,
            scale=options.scale,
            seeds=options.seeds,
            changes=options.changes,
            command=_command(),
        )
    except Stopped as stopped:
        raise Stopped(f"{stopped}; the same command goes on") from None
    _print_outcome(options, outcome)


def _command() -> str:
    return shlex.join(["andornot", *sys.argv[1:]])


def _print_outcome(options: argparse.Namespace, outcome: Any) -> None:
    from .evaluate.report import REPORT, plain

    if options.json:
        print(json.dumps(plain(outcome.figures)))
    else:
        print(f"{outcome.summary}\nThe report is in {options.output / REPORT}")
