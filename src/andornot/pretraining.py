"""Pretraining: create and save a model from images, in one of three regimes."""

import hashlib
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
import yaml
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from .data import ImageSet, ResizedImages, train_split
from .data.inputs import as_image, image_of
from .data.resized import UncroppedImages, open_uncropped, with_margin
from .errors import AndornotError, require_packages
from .model import DESCRIPTION, WEIGHTS, Model, new_backbone, new_network
from .probes import knn_accuracy, linear_accuracy
from .ssl.backbones import Backbone
from .ssl.batches import (
    ActivationBatches,
    Batches,
    ImageBatches,
    LoaderBatches,
    PairBatches,
    Transform,
    cache_activations,
    square_of,
    stream_loader,
    two_views,
    view_pair,
)
from .ssl.calibration import CALIBRATION_IMAGES
from .ssl.losses import Synthesis, function_name, get_synthesis
from .ssl.monitoring import Logger, draw_curves, effective_rank
from .ssl.network import Network
from .ssl.recipe import Recipe, load_recipe
from .ssl.runtime import is_first_process, restored_generators
from .ssl.training import CHECKPOINT, LOG, EpochProgress, Loss, check_training, train
from .ssl.views import Views

CURVES: Final = "curves.png"
# How often kNN accuracy is measured during training, and on how many images.
_KNN_TIMES = 5
_KNN_IMAGES = 5_000
_RANK_IMAGES = 2_000
# Bytes to hash at most, which takes a second or two, and images read at once.
_FINGERPRINT_BYTES = 10**9
_FINGERPRINT_BATCH = 256


class PretrainingError(AndornotError):
    """Raised when pretraining cannot start with the given arguments."""


def default_recipe(source: str | None) -> str:
    """Return the default recipe for images of a source."""
    return "digits" if source in ("digits", "mnist") else "photos"


def pretrain(
    images: Dataset[Any] | DataLoader[Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    recipe: Recipe | None = None,
    *,
    backbone: nn.Module | None = None,
    views: Transform | None = None,
    synthesis: Synthesis | None = None,
    loss: Loss | None = None,
    test_images: Dataset[Any] | None = None,
    cached: ActivationBatches | None = None,
    resume: bool = False,
    overwrite: bool = False,
    strict: bool = False,
    workers: int = 0,
    log_every: int = 20,
    loggers: Sequence[Logger | str] = (),
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> Model:
    """Train or calibrate a model on images according to the recipe, save it in `folder`, and return it.

    `images` may be a spec for `open_images`; then `train_split` determines which images are used for training and which
    are held out as `test_images`, and `recipe` defaults to the `default_recipe` of the source. It may also be any
    dataset of images or (image, label), map-style or a stream (an `IterableDataset`, which needs a recipe with
    `steps`), or a `DataLoader` of pairs of views. docs/pretraining.md has examples.

    `views` is a transform that replaces the recipe's views; it is called twice for each image, in `workers` processes.
    `backbone` is your own network instead of the recipe's (see `wrap_backbone`), and is trained in place; `synthesis`
    is your own synthesis function, and `loss` replaces the whole loss (see `SynthesisLoss`). The model's recipe records
    their names; to resume, or to load a model with such a backbone, pass them again.

    If `test_images` have labels, kNN accuracy on them is measured a few times during training. `cached` is the result
    of `view_activations` for these images and a recipe that differs only in the training of its heads. `loggers`, in
    addition to log.csv, are "tensorboard", "wandb", Lightning loggers, or objects with `log_metrics` and `finalize`
    methods.
    """
    folder = Path(folder)
    if isinstance(images, str | os.PathLike):
        images, held_out = train_split(images)
        test_images = held_out if test_images is None else test_images
    own_views = views is not None or isinstance(images, DataLoader | IterableDataset)
    if not own_views and not isinstance(images, ImageSet | DataLoader):
        images = ImageSet.from_dataset(images, labelled=test_images is not None)
    if test_images is not None and not isinstance(test_images, ImageSet):
        test_images = ImageSet.from_dataset(test_images)
    recipe = recipe or load_recipe(default_recipe(getattr(images, "source", None)))
    if own_views and recipe.regime != "scratch":
        raise PretrainingError(f"own views, loaders and streams need a recipe with regime=scratch, not {recipe.regime}")
    if isinstance(images, DataLoader) and images.batch_size is not None:
        batch_size = images.batch_size * int(os.environ.get("WORLD_SIZE", 1))
        recipe = recipe.model_copy(update={"batch_size": batch_size})
    _check_folder(folder, resume, overwrite)
    calibrated = recipe.regime == "calibrated"
    if not calibrated:
        require_packages("training", "lightning")
    with restored_generators():
        channels = _channels(images, views)
    network = None if calibrated else new_network(recipe, channels, backbone)
    body = network.backbone if network is not None else new_backbone(recipe, channels, backbone)
    recipe = _noting_own(recipe, None if backbone is None else body, synthesis, loss)
    if is_first_process():
        say(_announcement(images, test_images, recipe))
    seen: UncroppedImages | Batches
    if isinstance(images, ImageSet) and calibrated:
        images = _some(images, CALIBRATION_IMAGES, recipe.seed)
    if cached is not None:
        seen = cached
    elif isinstance(images, ImageSet) and not own_views:
        seen = _originals(images, recipe, body, strict)
    else:
        seen = _own_batches(images, views, recipe, body, workers)
    if isinstance(seen, UncroppedImages) and seen.images.broken:
        say(seen.images.broken_report())
    if resume and not (folder / CHECKPOINT).exists():
        say(f"there is no checkpoint in {folder} yet: starting from the beginning")
    fingerprint = None if network is None or own_views else _fingerprint(seen)
    if network is not None:
        count = (
            None if isinstance(seen, LoaderBatches) else len(seen.images if isinstance(seen, UncroppedImages) else seen)
        )
        check_training(recipe, count, folder, resume=resume, fingerprint=fingerprint)
    if is_first_process():
        _open_folder(folder, recipe, overwrite)
    if network is None:
        assert isinstance(seen, UncroppedImages), "only heads are trained on what was cached"
        assert isinstance(images, ImageSet), "own views are for training"
        activations = _activations(Model(body, nn.Identity(), recipe), images, seen.images)
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
            log_every=log_every,
            loggers=loggers,
            after_epoch=measure,
            synthesis=synthesis,
            loss=loss,
            fingerprint=fingerprint,
        )
        model = Model.from_network(network, recipe)
    if is_first_process():
        if network is not None and find_spec("matplotlib"):
            draw_curves(folder / LOG, folder / CURVES)
        model.save(folder)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    return model


def _channels(images: Any, views: Transform | None) -> int:
    """Return the number of channels of the images, from the first image if it is not known."""
    if isinstance(images, DataLoader):
        return view_pair(next(iter(images)))[0].shape[1]
    if views is None and isinstance(images, ImageSet):
        return images.channels
    image = image_of(next(iter(images)) if isinstance(images, IterableDataset) else images[0])
    if views is not None:
        return views(image).shape[0]
    return 1 if as_image(image).mode in ("1", "L") else 3


def _own_batches(
    images: Any, views: Transform | None, recipe: Recipe, backbone: Backbone, workers: int
) -> PairBatches | LoaderBatches:
    """Return the batches of a loader, a stream, or a dataset with its own transform."""
    if isinstance(images, DataLoader):
        return LoaderBatches(images)
    if not isinstance(images, IterableDataset):
        assert views is not None, "without views, the images of a data set are an ImageSet"
        return PairBatches(images, views, workers)
    batch_size = recipe.batch_size // int(os.environ.get("WORLD_SIZE", 1))
    if views is not None:
        return LoaderBatches(stream_loader(images, partial(two_views, transform=views), batch_size, workers))
    size = recipe.size or backbone.size
    square = partial(square_of, size=with_margin(size), fit=recipe.square_fit, channels=backbone.channels)
    return LoaderBatches(stream_loader(images, square, batch_size, workers), Views(recipe.view_settings(size)))


def _noting_own(recipe: Recipe, backbone: Backbone | None, synthesis: Synthesis | None, loss: Loss | None) -> Recipe:
    """Return the recipe with the names of the user's own functions and networks; raise an error if one is missing."""
    noted: dict[str, Any] = {}
    if backbone is not None:
        options = {
            key: value for key, value in backbone.config.items() if key not in ("name", "channels", "pretrained")
        }
        noted |= {"backbone": backbone.name, "backbone_options": options}
    if loss is not None:
        noted["loss"] = function_name(loss)
    elif recipe.loss is not None:
        raise PretrainingError(f'"{recipe.loss}" is a loss of your own: pretrain(…, loss=…) needs it again')
    if synthesis is not None:
        noted["synthesis"] = function_name(synthesis)
    elif recipe.regime != "calibrated":
        get_synthesis(recipe.synthesis)
    return recipe.model_copy(update=noted)


def _announcement(images: Any, test_images: ImageSet | None, recipe: Recipe) -> str:
    """Return a line that summarizes the training and its images."""
    if not isinstance(images, ImageSet):
        counted = "" if isinstance(images, DataLoader | IterableDataset) else f"{len(images):,} images of "
        return f"pretraining on {counted}a {type(images).__name__}"
    if images.split is not None:
        part = f", the split {images.split}"
    elif images.source is not None and test_images is not None and test_images.split is not None:
        part = f", all but the split {test_images.split}"
    else:
        part = ""
    described = f"{len(images):,} images ({images.source or 'given'}{part})"
    if recipe.regime != "calibrated":
        return f"pretraining on {described}"
    return f"calibrating on {f'{CALIBRATION_IMAGES:,} of ' if len(images) > CALIBRATION_IMAGES else ''}{described}"


def view_activations(images: ImageSet, recipe: Recipe) -> ActivationBatches:
    """Compute activations of views for the regime `frozen`, to train several heads on."""
    network = new_network(recipe, images.channels)
    return _cached(network, _originals(images, recipe, network.backbone, strict=False), recipe)


def _originals(images: ImageSet, recipe: Recipe, backbone: Backbone, strict: bool) -> UncroppedImages:
    """Return the images as the recipe needs them: for calibration, or to crop views from."""
    size = recipe.size or backbone.size
    if recipe.regime == "calibrated":
        return UncroppedImages(images.resized(size, recipe.square_fit, strict=strict))
    if recipe.crop_source == "original":
        return open_uncropped(images, size, strict=strict)
    return UncroppedImages(images.resized(with_margin(size), recipe.square_fit, strict=strict))


def _activations(model: Model, images: ImageSet, readable: ResizedImages) -> Tensor:
    """Return the activations of the readable images, preprocessed as by the model."""
    if not model.sees_all:
        return model.activations(readable)
    model.reserve(len(readable))
    parts = images.subset(readable.kept).read_parts(model.size)
    return torch.cat([model.activations(part, progress=False) for part in parts])


def _fingerprint(seen: UncroppedImages | Batches) -> str:
    """Return a digest of the training data: of all images, or of evenly spaced ones if they exceed 1 GB."""
    digest = hashlib.sha256()
    rows: ResizedImages | Tensor
    if isinstance(seen, UncroppedImages):
        rows, shapes = seen
        image_bytes = math.prod(rows.shape[1:])
        digest.update(str((tuple(rows.shape), None if shapes is None else shapes.tolist())).encode())
    else:
        assert isinstance(seen, ActivationBatches), "other batches have no fingerprint"
        rows = seen.views.transpose(0, 1)
        image_bytes = rows[:1].nbytes
        digest.update(str((tuple(rows.shape), seen.partners.tolist())).encode())
    step = max(1, -(-len(rows) * image_bytes // _FINGERPRINT_BYTES))
    for numbers in torch.split(torch.arange(0, len(rows), step), _FINGERPRINT_BATCH):
        digest.update(rows[numbers].contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise an error instead of overwriting an existing folder."""
    if folder.exists() and not folder.is_dir():
        raise PretrainingError(f"{folder} is a file; -o takes a folder, which is made if it is not there")
    # A run that was killed after saving its model, but before removing its checkpoint, can be resumed like any other.
    killed_at_the_end = resume and (folder / CHECKPOINT).exists()
    if (folder / DESCRIPTION).exists() and not (overwrite or killed_at_the_end):
        raise PretrainingError(f"{folder} holds a finished model; --overwrite replaces it, another -o keeps both")
    if (folder / CHECKPOINT).exists() and not (resume or overwrite):
        raise PretrainingError(f"{folder} holds an unfinished training; --resume continues, --overwrite starts over")


def _open_folder(folder: Path, recipe: Recipe, overwrite: bool) -> None:
    """Create the folder, remove what is to be overwritten, and write the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    if overwrite:
        for name in (DESCRIPTION, WEIGHTS, CHECKPOINT, LOG, CURVES):
            (folder / name).unlink(missing_ok=True)
    text = yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")


def _batches(network: Network, originals: UncroppedImages, recipe: Recipe) -> Batches:
    return (
        _cached(network, originals, recipe)
        if recipe.regime == "frozen"
        else ImageBatches(originals.images, _views(network, recipe), originals.shapes)
    )


def _cached(network: Network, originals: UncroppedImages, recipe: Recipe) -> ActivationBatches:
    count, mixup_lambda, seed = recipe.cached_views, recipe.mixup_lambda, recipe.seed
    images, shapes = originals
    views = _views(network, recipe)
    return cache_activations(network, images, views, count=count, mixup_lambda=mixup_lambda, seed=seed, shapes=shapes)


def _views(network: Network, recipe: Recipe) -> Views:
    return Views(recipe.view_settings(recipe.size or network.backbone.size))


def _knn_measure(
    recipe: Recipe, images: Any, test_images: ImageSet | None
) -> Callable[[EpochProgress], dict[str, float]] | None:
    """Return a callback that measures accuracies and effective ranks every few epochs, or None without labels."""
    if test_images is None or isinstance(images, DataLoader | IterableDataset):
        return None
    images = images if isinstance(images, ImageSet) else ImageSet.from_dataset(images)
    train_part, test_part = (_some(part, _KNN_IMAGES, seed=0) for part in (images, test_images))
    if _classes(train_part) is None or _classes(test_part) is None:
        return None
    every = max(1, recipe.epochs // _KNN_TIMES)

    def measure(progress: EpochProgress) -> dict[str, float]:
        if progress.epoch % every and progress.epoch != progress.epochs:
            return {}
        model = Model.from_network(progress.network, recipe)
        sets = [part.resized(model.size, model.fit, progress=False) for part in (train_part, test_part)]
        # Only labels of readable images, because broken ones have no activations.
        train_classes, test_classes = map(_classes, sets)
        if train_classes is None or test_classes is None:
            return {}
        activations = [model.activations(resized, progress=False) for resized in sets]
        degrees = [model.encode_activations(of_set).degrees for of_set in activations]
        return {
            "knn_features": knn_accuracy(activations[0], train_classes, activations[1], test_classes),
            "knn_degrees": knn_accuracy(degrees[0], train_classes, degrees[1], test_classes),
            "linear_features": linear_accuracy(activations[0], train_classes, activations[1], test_classes),
            "rank_features": effective_rank(activations[1][:_RANK_IMAGES]),
            "rank_degrees": effective_rank(degrees[1][:_RANK_IMAGES]),
        }

    return measure


def _classes(images: ImageSet | ResizedImages) -> Tensor | None:
    """Return the class numbers, or None if images have no or several classes."""
    return images.targets if images.targets is not None and images.targets.ndim == 1 else None


def _some(images: ImageSet, most: int, seed: int) -> ImageSet:
    """Return a random subset of at most `most` images, in their original order."""
    drawn = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:most]
    return images.subset(drawn.sort().values)
