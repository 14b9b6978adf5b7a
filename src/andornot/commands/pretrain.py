"""`andornot pretrain`: train or calibrate a model."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from ..errors import Stopped
from .options import add_changes, add_json

DESCRIPTION: Final = """\
Makes a model: calibrated on a folder of photos in a minute, or trained as in the paper.
SOURCE is a folder of images, or digits, scenes, mnist:PATH, cifar10:PATH, imagefolder:PATH,
voc:PATH, coco:PATH; options follow as ?key=value&key=value."""
EXAMPLES: Final = (
    "andornot pretrain photos/ -o model/",
    "andornot pretrain mnist:/data/mnist -o model/ --recipe mnist-paper --set epochs=20",
)


def add_options(parser: ArgumentParser) -> None:
    """Add the images, the recipe, and the output folder."""
    parser.add_argument("source", metavar="SOURCE", help="where the images come from")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the model")
    parser.add_argument("--recipe", help="name or YAML file (default: digits for digits and mnist, else photos)")
    add_changes(parser)
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="resume from the checkpoint in the folder")
    existing.add_argument("--overwrite", action="store_true", help="replace what is in the folder")
    parser.add_argument("--strict", action="store_true", help="an image that cannot be read is an error")
    parser.add_argument("--log-every", type=int, default=20, metavar="STEPS", help="steps between rows of log.csv")
    parser.add_argument(
        "--log", action="append", default=[], choices=("tensorboard", "wandb"), help="log there as well"
    )
    add_json(parser, "a summary")


def run(options: Namespace) -> None:
    """Create the model and print a summary."""
    from ..data import train_split
    from ..pretraining import default_recipe, pretrain
    from ..ssl.recipe import load_recipe
    from ..ssl.runtime import is_first_process

    images, test_images = train_split(options.source)
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
            log_every=options.log_every,
            loggers=options.log,
        )
    except Stopped as stopped:
        raise Stopped(f"{stopped}; rerun with --resume to continue") from None
    if not is_first_process():
        return
    summary = {"model": str(options.output), "id": model.id, "images": len(images)}
    summary |= {"num_features": model.num_features, "num_values": model.num_values}
    print(json.dumps(summary) if options.json else f"{model} of {len(images):,} images is in {options.output}")
