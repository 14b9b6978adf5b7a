"""Pretraining: from any images to a saved model, in one of three regimes."""

import hashlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from .data import ImageSet, ResizedImages, train_split
from .data.resized import UncroppedImages, open_uncropped, with_margin
from .errors import AndornotError
from .model import DESCRIPTION, WEIGHTS, Model, new_backbone, new_network
from .similarity import knn_accuracy
from .ssl.backbones import Backbone
from .ssl.batches import ActivationBatches, Batches, ImageBatches, cache_activations
from .ssl.calibration import CALIBRATION_IMAGES
from .ssl.losses import Synthesis, get_synthesis, synthesis_name
from .ssl.network import Network
from .ssl.recipe import Recipe, load_recipe
from .ssl.runtime import is_first_process
from .ssl.training import CHECKPOINT, LOG, EpochProgress, check_training, train
from .ssl.views import Views

# How often the kNN accuracy is measured during a training, and on how many images.
_KNN_TIMES = 5
_KNN_IMAGES = 5_000
# A second or two of hashing; images are read so many at a time.
_FINGERPRINT_BYTES = 10**9
_FINGERPRINT_BATCH = 256


class PretrainingError(AndornotError):
    """A pretraining that cannot be started as asked."""


def default_recipe(source: str | None) -> str:
    """Return the default recipe for images of a source."""
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
    """Train or calibrate a model on images as the recipe says, save it in `folder`, and return it.

    `images` may be a spec as of `open_images`: then `train_split` says which of its images are trained on, and
    which are held out as `test_images`. Without a recipe it is the `default_recipe` of the source.

    `backbone` is a network of your own in the place of the recipe's (see `wrap_backbone`), and is trained in place;
    `synthesis` a function of your own (see `SynthesisLoss`). The recipe of the model notes them by name; to resume,
    and to load a model with such a backbone, give them again.

    `test_images` with labels: kNN accuracy on them is measured a few times during the training. `cached`: what
    `view_activations` computed of these images for a recipe that differs in the training of its heads only.
    """
    if not isinstance(images, ImageSet):
        images, held_out = train_split(images)
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
        images = _some(images, CALIBRATION_IMAGES, recipe.seed)
    seen = cached or _originals(images, recipe, body, strict)
    if isinstance(seen, UncroppedImages) and seen.images.broken:
        say(seen.images.broken_report())
    if resume and not (folder / CHECKPOINT).exists():
        say(f"there is no checkpoint in {folder} yet: starting from the beginning")
    fingerprint = None if network is None else _fingerprint(seen)
    if network is not None:
        count = len(seen.images if isinstance(seen, UncroppedImages) else seen)
        check_training(recipe, count, folder, resume=resume, fingerprint=fingerprint)
    if is_first_process():
        _open_folder(folder, recipe, overwrite)
    if network is None:
        assert isinstance(seen, UncroppedImages), "only heads are trained on what was cached"
        activations = Model(body, nn.Identity(), recipe).activations(seen.images)
        model = Model.calibrated(body, activations, recipe)
    else:
        measure = _knn_measure(recipe, images, test_images)
        batches = _batches(network, seen, recipe) if isinstance(seen, UncroppedImages) else seen
        train(
            recipe,
            network,
            batches,
            folder,
            resume=resume,
            tensorboard=tensorboard,
            after_epoch=measure,
            synthesis=synthesis,
            fingerprint=fingerprint,
        )
        model = Model.from_network(network, recipe)
    if is_first_process():
        model.save(folder)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return model


def _noting_own(recipe: Recipe, backbone: Backbone | None, synthesis: Synthesis | None) -> Recipe:
    """Return the recipe with the names of the user's own functions and networks; raise an error if one is missing."""
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
    """Return a line that says what will be done with which images."""
    if images.split is not None:
        part = f", the split {images.split}"
    else:
        part = f", all but the split {test_images.split}" if test_images is not None else ""
    described = f"{len(images):,} images ({images.source or 'given'}{part})"
    if recipe.regime != "calibrated":
        return f"pretraining on {described}"
    return f"calibrating on {f'{CALIBRATION_IMAGES:,} of ' if len(images) > CALIBRATION_IMAGES else ''}{described}"


def view_activations(images: ImageSet, recipe: Recipe) -> ActivationBatches:
    """Compute activations of views for the regime `frozen`, to train several heads on."""
    network = new_network(recipe, images.channels)
    return _cached(network, _originals(images, recipe, network.backbone, strict=False), recipe)


def _originals(images: ImageSet, recipe: Recipe, backbone: Backbone, strict: bool) -> UncroppedImages:
    """Return the images as the recipe needs them: to calibrate on, or to cut views from."""
    size = recipe.size or backbone.size
    if recipe.regime == "calibrated":
        return UncroppedImages(images.resized(size, recipe.fit, strict=strict))
    if recipe.crop_source == "original":
        return open_uncropped(images, size, strict=strict)
    return UncroppedImages(images.resized(with_margin(size), recipe.fit, strict=strict))


def _fingerprint(seen: UncroppedImages | ActivationBatches) -> str:
    """Return a digest of the data of a training: of all images, or of evenly spaced ones if they take over 1 GB."""
    digest = hashlib.sha256()
    rows: ResizedImages | Tensor
    if isinstance(seen, UncroppedImages):
        rows, shapes = seen
        image_bytes = math.prod(rows.shape[1:])
        digest.update(str((tuple(rows.shape), None if shapes is None else shapes.tolist())).encode())
    else:
        rows = seen.views.transpose(0, 1)
        image_bytes = rows[:1].nbytes
        digest.update(str((tuple(rows.shape), seen.partners.tolist())).encode())
    step = max(1, -(-len(rows) * image_bytes // _FINGERPRINT_BYTES))
    for numbers in torch.split(torch.arange(0, len(rows), step), _FINGERPRINT_BATCH):
        digest.update(rows[numbers].contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise an error rather than overwrite what is in the folder."""
    if folder.exists() and not folder.is_dir():
        raise PretrainingError(f"{folder} is a file; -o takes a folder, which is made if it is not there")
    # A run that was killed after saving its model, but before removing its checkpoint, may go on as any other.
    killed_at_the_end = resume and (folder / CHECKPOINT).exists()
    if (folder / DESCRIPTION).exists() and not (overwrite or killed_at_the_end):
        raise PretrainingError(f"{folder} holds a finished model; --overwrite replaces it, another -o keeps both")
    if (folder / CHECKPOINT).exists() and not (resume or overwrite):
        raise PretrainingError(f"{folder} holds an unfinished training; --resume continues, --overwrite starts over")


def _open_folder(folder: Path, recipe: Recipe, overwrite: bool) -> None:
    """Create the folder, remove what is to be overwritten, and write the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    if overwrite:
        for name in (DESCRIPTION, WEIGHTS, CHECKPOINT, LOG):
            (folder / name).unlink(missing_ok=True)
    text = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")


def _batches(network: Network, originals: UncroppedImages, recipe: Recipe) -> Batches:
    return (
        _cached(network, originals, recipe)
        if recipe.regime == "frozen"
        else ImageBatches(originals.images, _views(network, recipe), originals.shapes, recipe.mixup_lambda)
    )


def _cached(network: Network, originals: UncroppedImages, recipe: Recipe) -> ActivationBatches:
    count, mixup_lambda, seed = recipe.cached_views, recipe.mixup_lambda, recipe.seed
    images, shapes = originals
    views = _views(network, recipe)
    return cache_activations(network, images, views, count=count, mixup_lambda=mixup_lambda, seed=seed, shapes=shapes)


def _views(network: Network, recipe: Recipe) -> Views:
    return Views(recipe.view_settings(recipe.size or network.backbone.size))


def _knn_measure(
    recipe: Recipe, images: ImageSet, test_images: ImageSet | None
) -> Callable[[EpochProgress], dict[str, float]] | None:
    """Return a callback that measures kNN accuracy every few epochs, or None without labels."""
    if test_images is None:
        return None
    train_part, test_part = (_some(part, _KNN_IMAGES, seed=0) for part in (images, test_images))
    if _classes(train_part) is None or _classes(test_part) is None:
        return None
    every = max(1, recipe.epochs // _KNN_TIMES)

    def measure(progress: EpochProgress) -> dict[str, float]:
        if progress.epoch % every and progress.epoch != progress.epochs:
            return {}
        model = Model.from_network(progress.network, recipe)
        sets = [part.resized(model.size, recipe.fit, progress=False) for part in (train_part, test_part)]
        # The labels of the readable images: a broken one has no activations.
        train_classes, test_classes = map(_classes, sets)
        if train_classes is None or test_classes is None:
            return {}
        activations = [model.activations(resized, progress=False) for resized in sets]
        degrees = [model.encode_activations(of_set).degrees for of_set in activations]
        return {
            "knn_features": knn_accuracy(activations[0], train_classes, activations[1], test_classes),
            "knn_degrees": knn_accuracy(degrees[0], train_classes, degrees[1], test_classes),
        }

    return measure


def _classes(images: ImageSet | ResizedImages) -> Tensor | None:
    """Return the class numbers, or None where images have none or several."""
    return images.targets if images.targets is not None and images.targets.ndim == 1 else None


def _some(images: ImageSet, most: int, seed: int) -> ImageSet:
    """Return a random subset of at most `most` images, in their order."""
    drawn = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:most]
    return images.subset(drawn.sort().values)
