"""`andornot …`: parses, calls, prints. A user's mistake is one clear line and exit code 2."""

import argparse
import json
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import AndornotError, Stopped
from .gallery.options import SCORES, SearchOptions, options_of
from .progress import lines
from .version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code: 0 done, 2 wrong usage or input, 130 stopped."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    warnings.showwarning = _show_warning
    try:
        try:
            options = _parser(next((word for word in given if not word.startswith("-")), None)).parse_args(given)
            options.command = shlex.join(["andornot", *given])  # for results, which say how they came about
            with lines():
                options.run(options)
        finally:
            sys.stdout.flush()  # a pipe that nobody reads any more is met here, and not by the interpreter as it ends
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except BrokenPipeError:
        # Whoever read the output has seen enough, as `head` does; what is left to write goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _fail(f"{error.strerror or error}{where}")
    except Stopped as stopped:
        return _fail(str(stopped), 130)
    except AndornotError as error:
        return _fail(str(error))
    return 0


def _fail(message: str, code: int = 2) -> int:
    print(f"andornot: {message}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"andornot: warning: {message}", file=sys.stderr)


def _parser(command: str | None = None) -> argparse.ArgumentParser:
    """Knows all commands. What `evaluate` and `reproduce` take is added for them alone: it takes seconds to import."""
    parser = argparse.ArgumentParser(
        prog="andornot", description="Image representations that you can compute with: a | b, a & b, ~a."
    )
    parser.add_argument("--version", action="version", version=f"andornot {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_pretrain(commands)
    _add_evaluate(commands, with_options=command == "evaluate")
    _add_reproduce(commands, with_options=command == "reproduce")
    _add_index(commands)
    _add_search(commands)
    _add_serve(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="the main job on embedded data, in a few minutes",
        description="Works an example of OR, AND and NOT, pretrains on real digits, measures the operators on them, "
        "draws scenes, and searches both with formulas. Pictures and reports go to the output folder. What is "
        "there already is used again.",
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


def _add_evaluate(commands: Any, *, with_options: bool) -> None:
    evaluate = commands.add_parser(
        "evaluate",
        help="measure a model on labelled pictures",
        description="Measures one model, and writes result.json and report.html into the output folder.",
        epilog="examples: andornot evaluate knn --model model/ --data digits -o knn/\n"
        "          andornot evaluate operability --model model/ --data voc:/data/VOCdevkit -o operability/ --enough 60",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if not with_options:
        return
    from .evaluate.commands import EVALUATIONS

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


def _add_reproduce(commands: Any, *, with_options: bool) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        help="repeat an experiment of the paper",
        description="Trains what an experiment needs, measures it, and writes result.json and report.html into the\n"
        "output folder. Stopped, the same command goes on where it was.",
        epilog="examples: andornot reproduce mnist-retrieval -o out/\n"
        "          andornot reproduce mnist-retrieval --data mnist:/data/mnist -o out/\n"
        "          andornot reproduce classification --data cifar10:/data --scale paper -o out/\n"
        "          andornot reproduce all --data mnist:/data/mnist --data voc:/data/VOCdevkit -o out/",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if not with_options:
        return
    from .evaluate.commands import PROTOCOL_OPTIONS
    from .reproduce import EVERYTHING, EXPERIMENTS

    listed = "\n".join(f"  {name:<21}{experiment.help}" for name, experiment in EXPERIMENTS.items())
    listed += f"\n  {EVERYTHING:<21}all of these, each in a folder of its own, and a page that says what holds"
    reproduce.description = f"{reproduce.description}\n\n{listed}"
    reproduce.add_argument(
        "experiment", metavar="EXPERIMENT", choices=[*EXPERIMENTS, EVERYTHING], help="one of those above"
    )
    reproduce.add_argument("-o", "--output", type=Path, required=True, help="folder for models, result and report")
    reproduce.add_argument(
        "--data",
        metavar="SOURCE",
        action="append",
        default=[],
        help="labelled pictures (default: embedded ones); for all it may be repeated: each goes where it belongs",
    )
    reproduce.add_argument(
        "--pretrain-data", metavar="SOURCE", help="pictures to pretrain on (default: those of --data)"
    )
    reproduce.add_argument(
        "--scale", choices=("small", "paper"), default="small", help="small: minutes on two cores; paper: as printed"
    )
    reproduce.add_argument(
        "--seeds",
        metavar="K",
        action="append",
        help="trainings of each model, with the seeds 0 to K-1; LABEL=K for one of them, 0 for none (may be repeated)",
    )
    reproduce.add_argument(
        "--set", dest="changes", metavar="KEY=VALUE", action="append", default=[], help="change a setting of the recipe"
    )
    reproduce.add_argument("--json", action="store_true", help="print the figures for programs")
    numbers = reproduce.add_argument_group("retrieval", "instead of the numbers of the scale")
    for option in PROTOCOL_OPTIONS:
        numbers.add_argument(*option.flags, help=option.help, **option.how)
    reproduce.set_defaults(run=_reproduce)


def _add_index(commands: Any) -> None:
    index = commands.add_parser(
        "index",
        help="make a gallery of folders of pictures, or bring it up to date",
        description="Encodes the pictures of folders into a gallery: the first time all, later only what changed.\n"
        "Without FOLDER it looks through all folders that the gallery knows. The gallery calibrates a model of\n"
        "its own on the first pictures, unless one is given. Stopped or killed, the same command goes on.",
        epilog="examples: andornot index photos/ --gallery g/\n          andornot index --gallery g/ --watch",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    index.add_argument("folders", metavar="FOLDER", nargs="*", help="folders of pictures")
    index.add_argument("--gallery", type=Path, required=True, help="folder of the gallery")
    index.add_argument("--model", type=Path, help="folder of a model (default: the gallery's own)")
    _add_engine(index)
    index.add_argument(
        "--score", action="append", choices=SCORES, help="prepare fast searches by this score as well (may be repeated)"
    )
    index.add_argument("--watch", action="store_true", help="keep up with the folders until stopped")
    index.add_argument("--prune", action="store_true", help="drop the pictures of folders that are missing or empty")
    index.add_argument(
        "--repair",
        action="store_true",
        help="first drop what is damaged, and make it anew; with --model, take that for a damaged model",
    )
    index.add_argument("--recalibrate", action="store_true", help="afterwards calibrate the model on all pictures anew")
    index.add_argument("--json", action="store_true", help="print a summary for programs")
    index.set_defaults(run=_index)


def _add_search(commands: Any) -> None:
    search = commands.add_parser(
        "search",
        help="find the pictures of a gallery that are nearest to a formula",
        description="A name in the formula is a picture of the gallery (file name, path, or the number of a former\n"
        "hit), or else a picture file. Names with spaces or signs go in quotes; the formula itself too, for the shell.",
        epilog="examples: andornot search 'beach.jpg & ~crowd.jpg' --gallery g/ --top 10\n"
        "          andornot search '(dog.jpg | \"my ball.jpg\") - ./new/cat.png' --gallery g/ --sheet hits.png",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    search.add_argument("formula", metavar="FORMULA", help="such as 'a.jpg & ~b.jpg', '(a.jpg | b.jpg) - c.jpg'")
    search.add_argument("--gallery", type=Path, required=True, help="folder of the gallery")
    _add_options(search, SearchOptions)
    _add_engine(search)
    search.add_argument("--sheet", type=Path, metavar="FILE", help="draw the pictures of the search")
    search.add_argument("--json", action="store_true", help="print the hits for programs")
    search.set_defaults(run=_search)


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="open a gallery as a page in the browser",
        description="Serves a page to search a gallery by clicking, and the same as an HTTP API, until Ctrl-C.\n"
        "Only this machine can reach it, unless --host says so; then the printed address has a token in it.",
        epilog="examples: andornot serve --gallery g/ --open\n          andornot serve --gallery g/ --host 0.0.0.0",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("--gallery", type=Path, required=True, help="folder of the gallery")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen at (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, help="port to listen at (default: 8008, or the next that is free)")
    serve.add_argument("--no-auth", action="store_true", help="no token: whoever reaches the address may look")
    serve.add_argument("--no-paths", action="store_true", help="do not say where pictures are, as for other hosts")
    serve.add_argument("--open", action="store_true", help="open the page in the browser")
    _add_engine(serve)
    serve.set_defaults(run=_serve)


def _add_options(command: argparse.ArgumentParser, settings: type) -> None:
    """A flag for each option of a search."""
    for name, kind, default, what, choices, metavar in options_of(settings):
        flag = f"--{name.replace('_', '-')}"
        if kind is bool:
            command.add_argument(flag, action="store_true", help=what)
            continue
        told = what if default is None else f"{what} (default: {default})"
        command.add_argument(flag, type=kind, default=default, choices=choices or None, metavar=metavar, help=told)


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--engine",
        default="auto",
        metavar="ENGINE",
        help="what finds the pictures: auto, exact, faiss or milvus://host:port/collection (default: auto)",
    )


def _demo(options: argparse.Namespace) -> None:
    from . import demo

    demo.run(options.output)


def _pretrain(options: argparse.Namespace) -> None:
    from .pretraining import default_recipe, pretrain, training_part
    from .ssl.distributed import is_first_process
    from .ssl.recipe import load_recipe

    images, test_images = training_part(options.source)
    recipe = load_recipe(options.recipe or default_recipe(images.source), options.changes)
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

    outcome = evaluate(options.evaluation, options, command=options.command)
    _print_outcome(options, outcome)


def _reproduce(options: argparse.Namespace) -> None:
    from .evaluate.commands import protocol_changes
    from .evaluate.outcome import EvaluationError
    from .reproduce import EVERYTHING, reproduce, reproduce_all

    common = {
        "pretrain_data": options.pretrain_data,
        "scale": options.scale,
        "seeds": options.seeds,
        "changes": options.changes,
        "protocol": protocol_changes(options),
        "command": options.command,
    }
    if options.experiment != EVERYTHING and len(options.data) > 1:
        raise EvaluationError(f"--data {options.data[1]}: {options.experiment} takes one source, and has one")
    try:
        if options.experiment == EVERYTHING:
            outcome = reproduce_all(options.output, data=options.data, **common)
        else:
            outcome = reproduce(options.experiment, options.output, data=next(iter(options.data), None), **common)
    except Stopped as stopped:
        raise Stopped(f"{stopped}; the same command goes on") from None
    _print_outcome(options, outcome)


def _index(options: argparse.Namespace) -> None:
    from .gallery.commands import index

    for line in index(options):
        print(line, flush=True)


def _search(options: argparse.Namespace) -> None:
    from .gallery.commands import search

    print(search(options))


def _serve(options: argparse.Namespace) -> None:
    from .web.serve import serve

    serve(options)


def _print_outcome(options: argparse.Namespace, outcome: Any) -> None:
    from .evaluate.report import REPORT, plain

    if options.json:
        print(json.dumps(plain(outcome.figures)))
    else:
        print(f"{outcome.summary}\nThe report is in {options.output / REPORT}")
