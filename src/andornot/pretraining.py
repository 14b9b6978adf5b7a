"""Pretraining: from any pictures to a saved model, in one of three regimes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn

from .data import ImageSet, training_part
from .data.originals import Originals, open_originals, with_margin
from .errors import AndornotError
from .evaluate.metrics.knn import knn_accuracy, single_classes
from .model import DESCRIPTION, WEIGHTS, Model, new_backbone, new_network
from .ssl.backbones import Backbone
from .ssl.batches import ActivationBatches, PictureBatches, cache_activations
from .ssl.calibration import ENOUGH_PICTURES
from .ssl.distributed import is_first_process
from .ssl.network import Network
from .ssl.recipe import Recipe, load_recipe
from .ssl.synthesis import Synthesis, get_synthesis, synthesis_name
from .ssl.training import CHECKPOINT, LOG, Batches, Progress, check_training, train
from .ssl.views import Views

# How often the kNN accuracy is measured during a training, and on how many pictures.
_KNN_TIMES = 5
_KNN_PICTURES = 5_000


class PretrainingError(AndornotError):
    """A pretraining that cannot be started as asked."""


def default_recipe(source: str | None) -> str:
    """The recipe for pictures of that source, if none is named."""
    return "digits" if source in ("digits", "mnist") else "photos"


def pretrain(
    images: ImageSet | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    recipe: Recipe | None = None,
    *,
    backbone: nn.Module | None = None,
    synthesis: Synthesis | None = None,
    test_images: ImageSet | None = None,
    cached: ActivationBatches | None = None,
    resume: bool = False,
    overwrite: bool = False,
    strict: bool = False,
    tensorboard: bool = False,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> Model:
    """Makes a model of the pictures as the recipe says, saves it in `folder`, and returns it.

    `images` may be a spec as of `open_images`: then `training_part` says which of its pictures are trained on, and
    which are held out as `test_images`. Without a recipe it is the `default_recipe` of the source.

    `backbone` is a network of your own in the place of the recipe's (see `wrap_backbone`), and is trained in place;
    `synthesis` a function of your own (see `Objective`). The recipe of the model notes them by name; to resume, and to
    load a model with such a backbone, give them again.

    `test_images` with labels: kNN accuracy on them is measured a few times during the training. `cached`: what
    `view_activations` computed of these pictures for a recipe that differs in the training of its heads only.
    """
    if not isinstance(images, ImageSet):
        images, held_out = training_part(images)
        test_images = held_out if test_images is None else test_images
    recipe = recipe or load_recipe(default_recipe(images.source))
    folder = Path(folder)
    _check_folder(folder, resume, overwrite)
    calibrated = recipe.regime == "calibrated"
    network = None if calibrated else new_network(recipe, images.channels, backbone)
    body = network.backbone if network is not None else new_backbone(recipe, images.channels, backbone)
    recipe = _noting_own(recipe, None if backbone is None else body, synthesis)
    if is_first_process():
        say(_announcement(images, test_images, recipe))
    if calibrated:
        images = _some(images, ENOUGH_PICTURES, recipe.seed)
    seen = cached or _originals(images, recipe, body, strict)
    if isinstance(seen, Originals) and seen.pictures.broken:
        say(seen.pictures.broken_report())
    if resume and not (folder / CHECKPOINT).exists():
        say(f"there is no checkpoint in {folder} yet: starting from the beginning")
    if network is not None:
        check_training(recipe, len(seen.pictures if isinstance(seen, Originals) else seen), folder, resume=resume)
    if is_first_process():
        _open_folder(folder, recipe, overwrite)
    if network is None:
        assert isinstance(seen, Originals), "only heads are trained on what was cached"
        activations = Model(body, nn.Identity(), recipe).activations(seen.pictures)
        model = Model.calibrated(body, activations, recipe)
    else:
        measure = _knn_measure(recipe, images, test_images)
        batches = _batches(network, seen, recipe) if isinstance(seen, Originals) else seen
        train(
            recipe,
            network,
            batches,
            folder,
            resume=resume,
            tensorboard=tensorboard,
            after_epoch=measure,
            synthesis=synthesis,
        )
        model = Model.from_network(network, recipe)
    if is_first_process():
        model.save(folder)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return model


def _noting_own(recipe: Recipe, backbone: Backbone | None, synthesis: Synthesis | None) -> Recipe:
    """The recipe with the names of what is the user's own, which it cannot keep; an error for what is missing."""
    noted: dict[str, Any] = {}
    if backbone is not None:
        options = {
            key: value for key, value in backbone.config.items() if key not in ("name", "channels", "pretrained")
        }
        noted |= {"backbone": backbone.name, "backbone_options": options}
    if synthesis is not None:
        noted["synthesis"] = synthesis_name(synthesis)
    elif recipe.regime != "calibrated":
        get_synthesis(recipe.synthesis)
    return recipe.model_copy(update=noted)


def _announcement(images: ImageSet, test_images: ImageSet | None, recipe: Recipe) -> str:
    """What is about to be done with which pictures."""
    if images.split is not None:
        part = f", the split {images.split}"
    else:
        part = f", all but the split {test_images.split}" if test_images is not None else ""
    pictures = f"{len(images):,} pictures ({images.source or 'given'}{part})"
    if recipe.regime != "calibrated":
        return f"pretraining on {pictures}"
    return f"calibrating on {f'{ENOUGH_PICTURES:,} of ' if len(images) > ENOUGH_PICTURES else ''}{pictures}"


def view_activations(images: ImageSet, recipe: Recipe) -> ActivationBatches:
    """Activations of views for the regime `frozen`, to be shared by trainings of several heads."""
    network = new_network(recipe, images.channels)
    return _cached(network, _originals(images, recipe, network.backbone, strict=False), recipe)


def _originals(images: ImageSet, recipe: Recipe, backbone: Backbone, strict: bool) -> Originals:
    """The pictures as the recipe needs them: to be calibrated on, or to cut views of."""
    size = recipe.size or backbone.size
    if recipe.regime == "calibrated":
        return Originals(images.pictures(size, recipe.fit, strict=strict))
    if recipe.crops_from == "original":
        return open_originals(images, size, strict=strict)
    return Originals(images.pictures(with_margin(size), recipe.fit, strict=strict))


def _check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Refuses to lose what is in the folder; says what would be right."""
    if folder.exists() and not folder.is_dir():
        raise PretrainingError(f"{folder} is a file; -o takes a folder, which is made if it is not there")
    # A run that was killed after saving its model, but before removing its checkpoint, may go on as any other.
    killed_at_the_end = resume and (folder / CHECKPOINT).exists()
    if (folder / DESCRIPTION).exists() and not (overwrite or killed_at_the_end):
        raise PretrainingError(f"{folder} holds a finished model; --overwrite replaces it, another -o keeps both")
    if (folder / CHECKPOINT).exists() and not (resume or overwrite):
        raise PretrainingError(f"{folder} holds an unfinished training; --resume goes on, --overwrite starts anew")


def _open_folder(folder: Path, recipe: Recipe, overwrite: bool) -> None:
    """Makes the folder, removes what is to be overwritten, and writes the recipe into it."""
    folder.mkdir(parents=True, exist_ok=True)
    if overwrite:
        for name in (DESCRIPTION, WEIGHTS, CHECKPOINT, LOG):
            (folder / name).unlink(missing_ok=True)
    text = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")


def _batches(network: Network, originals: Originals, recipe: Recipe) -> Batches:
    return (
        _cached(network, originals, recipe)
        if recipe.regime == "frozen"
        else PictureBatches(originals.pictures, _views(network, recipe), originals.shapes)
    )


def _cached(network: Network, originals: Originals, recipe: Recipe) -> ActivationBatches:
    count, mixing, seed = recipe.cached_views, recipe.mixing, recipe.seed
    pictures, shapes = originals
    views = _views(network, recipe)
    return cache_activations(network, pictures, views, count=count, mixing=mixing, seed=seed, shapes=shapes)


def _views(network: Network, recipe: Recipe) -> Views:
    return Views(recipe.view_settings(recipe.size or network.backbone.size))


def _knn_measure(
    recipe: Recipe, images: ImageSet, test_images: ImageSet | None
) -> Callable[[Progress], dict[str, float]] | None:
    """A callback that measures kNN accuracy every few epochs, or None without labels."""
    if test_images is None:
        return None
    train_part, test_part = (_some(part, _KNN_PICTURES, seed=0) for part in (images, test_images))
    if single_classes(train_part.labels) is None or single_classes(test_part.labels) is None:
        return None
    every = max(1, recipe.epochs // _KNN_TIMES)

    def measure(progress: Progress) -> dict[str, float]:
        if progress.epoch % every and progress.epoch != progress.epochs:
            return {}
        model = Model.from_network(progress.network, recipe)
        sets = [part.pictures(model.size, recipe.fit, progress=False) for part in (train_part, test_part)]
        # The labels of the readable pictures: a broken one has no activations.
        train_classes, test_classes = (single_classes(pictures.labels) for pictures in sets)
        if train_classes is None or test_classes is None:
            return {}
        activations = [model.activations(pictures, progress=False) for pictures in sets]
        degrees = [model.represent(of_set).degrees for of_set in activations]
        return {
            "knn_features": knn_accuracy(activations[0], train_classes, activations[1], test_classes),
            "knn_degrees": knn_accuracy(degrees[0], train_classes, degrees[1], test_classes),
        }

    return measure


def _some(images: ImageSet, most: int, seed: int) -> ImageSet:
    """At most so many of the pictures, drawn at random, in their order."""
    drawn = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:most]
    return images.subset(drawn.sort().values)
