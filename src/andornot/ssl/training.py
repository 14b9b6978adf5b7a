"""The training loop: from images to a trained network, with checkpoints to resume from.

Lightning Fabric does devices, processes and precision; the loop is ours, because a run that was killed
must end bit-identical to one that was not. So nothing random has a state: the order of an epoch comes from the seed and
the epoch, views from the seed and the step.
"""

import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from .. import progress
from ..errors import AndornotError, Stopped
from ..logic import Representation
from .batches import Batch, Batches
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    optimiser_tensors,
    restore_optimiser,
    save_checkpoint,
)
from .losses import Synthesis, SynthesisLoss, SynthesisOutput
from .monitoring import Log, collapse_warning, measure_health
from .network import Network
from .recipe import Recipe, RecipeError, make_recipe
from .runtime import stop_signals, synchronise_batch_norms, without_denormals
from .targets import Center, PriorCenter

CHECKPOINT: Final = "checkpoint.safetensors"
LOG: Final = "log.csv"
# Settings that a resumed run may change.
_FREE: Final = ("checkpoint_seconds",)
_DATA: Final = "data"


class TrainingError(AndornotError):
    """A training that cannot go on, with what to change."""


class EpochProgress(NamedTuple):
    """Where a training is, for callbacks after each epoch."""

    epoch: int
    epochs: int
    network: Network


def train(
    recipe: Recipe,
    network: Network,
    batches: Batches,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    log_every: int = 20,
    tensorboard: bool = False,
    after_epoch: Callable[[EpochProgress], dict[str, float]] | None = None,
    synthesis: Synthesis | None = None,
    fingerprint: str | None = None,
) -> Network:
    """Train the network in place, log to `folder`/log.csv, keep the checkpoint there, and return the network.

    `synthesis` is a function of your own in the place of the one that the recipe names. `fingerprint` is a digest of
    the data: a run that is resumed must have the same.
    """
    training = _Training(recipe, network, batches, Path(folder), resume, log_every, tensorboard, synthesis, fingerprint)
    return training.run(after_epoch)


def check_training(
    recipe: Recipe, images: int, folder: Path, *, resume: bool = False, fingerprint: str | None = None
) -> None:
    """Raise what `train` would raise for too few images or another run's checkpoint, before writing anything."""
    batch_size = _batch_size(recipe, images, int(os.environ.get("WORLD_SIZE", 1)))
    if resume and (folder / CHECKPOINT).exists():
        _load_matching(folder / CHECKPOINT, _settings(recipe, images, batch_size, fingerprint))


class _Training:
    def __init__(
        self,
        recipe: Recipe,
        network: Network,
        batches: Batches,
        folder: Path,
        resume: bool,
        log_every: int,
        tensorboard: bool,
        synthesis: Synthesis | None,
        fingerprint: str | None,
    ) -> None:
        self.fingerprint = fingerprint
        self.recipe, self.batches, self.folder, self.log_every = recipe, batches, folder, log_every
        self.fabric = _fabric(recipe)
        self.batch_size = _batch_size(recipe, len(batches), self.fabric.world_size)
        self.steps_per_epoch = len(batches) // self.batch_size
        self.total = self.steps_per_epoch * recipe.epochs
        self.loss = SynthesisLoss(
            synthesis or recipe.synthesis,
            center=_center(recipe),
            temperature=recipe.prediction_temperature,
            mixup_lambda=recipe.mixup_lambda,
            alpha=recipe.alpha,
            beta=recipe.beta,
            accumulate=recipe.accumulate,
        ).to(self.fabric.device)
        if self.fabric.world_size > 1:
            synchronise_batch_norms(network, self.fabric.device)
        trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
        optimiser = torch.optim.SGD(
            trainable, recipe.peak_learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
        )
        with warnings.catch_warnings():  # broadcast_buffers has a new name in some versions of torch
            warnings.simplefilter("ignore")
            self.network, self.optimiser = self.fabric.setup(network, optimiser)
        self.network.mark_forward_method("project")
        self.bare = network
        self.state = nn.ModuleDict({"network": network, "loss": self.loss})
        self.start = self._restore() if resume else 0
        self.warned = False
        self.table: Log | None = None
        self.board: Any = None
        if self.fabric.is_global_zero:
            self.table = Log(folder / LOG, self.start)
            self.board = _tensorboard(folder) if tensorboard else None

    def run(self, after_epoch: Callable[[EpochProgress], dict[str, float]] | None) -> Network:
        self.bare.train()
        saved = time.monotonic()
        with without_denormals(), stop_signals() as stop, self._bar() as bar:
            for step in range(self.start, self.total):
                parts = self._step(step)
                epoch_ends = (step + 1) % self.steps_per_epoch == 0
                self._report(step, parts, bar)
                if epoch_ends and after_epoch and self.fabric.is_global_zero:
                    epoch = (step + 1) // self.steps_per_epoch
                    figures = after_epoch(EpochProgress(epoch, self.recipe.epochs, self.bare))
                    self.bare.train()
                    self._write(step, figures)
                    if figures:
                        bar.say(f"epoch {epoch}: " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))
                due, asked = self._agree(time.monotonic() - saved > self.recipe.checkpoint_seconds, stop.asked)
                if due or asked or step + 1 == self.total:
                    self._save(step + 1)
                    saved = time.monotonic()
                if asked and step + 1 < self.total:
                    raise Stopped(f"stopped after step {step + 1} of {self.total}, and saved")
        return self.bare

    def _step(self, step: int) -> list[SynthesisOutput]:
        """Make one step of the optimiser, and return the results of the parts of its batch."""
        recipe = self.recipe
        # Dropout and the like take torch's own generator: it is set anew for each step, too.
        torch.manual_seed(_mixed(recipe.seed, step, self.fabric.global_rank))
        generator = torch.Generator().manual_seed(_mixed(recipe.seed, step, self.fabric.global_rank, 1))
        rate = recipe.peak_learning_rate * (1 + math.cos(math.pi * step / self.total)) / 2
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        parts = self._indices(step).chunk(recipe.accumulate)
        results, losses = [], []
        for number, indices in enumerate(parts):
            with self.fabric.no_backward_sync(self.network, enabled=number + 1 < len(parts)):
                result = self._compute_loss(self.batches.load(indices, generator, self.fabric.device))
                self.fabric.backward(result.total / len(parts))
            results.append(result)
            losses.append(result.total.item())
        if not math.isfinite(loss := sum(losses)):
            raise TrainingError(
                f"the loss became {loss} at step {step + 1} of {self.total}; "
                "start over (--overwrite) with a lower learning_rate, or with precision=32-true"
            )
        self.optimiser.step()
        return results

    def _compute_loss(self, batch: Batch) -> SynthesisOutput:
        encode = self.network.project if self.batches.are_activations else self.network
        first, second = encode(batch.first), encode(batch.second)
        mixed = partner_z = None
        if self.loss.synthesis is not None and batch.mixed is not None:
            mixed = encode(batch.mixed)
            partner_z = None if batch.partner is None else encode(batch.partner).z
        result: SynthesisOutput = self.loss(first, second, mixed, partner_z)
        return result

    def _agree(self, *wishes: bool) -> list[bool]:
        """Return which flags any process has set: clocks and signals differ, and all must save after the same step."""
        if self.fabric.world_size == 1:
            return list(wishes)
        numbers = torch.tensor(wishes, dtype=torch.int32, device=self.fabric.device)
        return [bool(number) for number in self.fabric.all_reduce(numbers, reduce_op="max")]

    def _indices(self, step: int) -> Tensor:
        """Return the indices of this process's images in a step; an epoch's incomplete last batch is dropped."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if getattr(self, "_epoch", None) != epoch:
            generator = torch.Generator().manual_seed(_mixed(self.recipe.seed, epoch))
            self._epoch, self._order = epoch, torch.randperm(len(self.batches), generator=generator)
        batch = self._order[position * self.batch_size : (position + 1) * self.batch_size]
        mine: Tensor = batch.chunk(self.fabric.world_size)[self.fabric.global_rank]
        return mine

    def _report(self, step: int, parts: list[SynthesisOutput], bar: progress.Progress) -> None:
        bar.update(self.batch_size)
        if (step + 1) % self.log_every and step + 1 != self.total:
            return
        health = measure_health(Representation.cat([part.targets[0].representation for part in parts]))
        predictions = measure_health(Representation.cat([part.prediction for part in parts]))
        losses = {
            f"loss_{name}": sum(getattr(part.losses, name).item() for part in parts) / len(parts)
            for name, loss in parts[0].losses._asdict().items()
            if loss is not None
        }
        bar.note(loss=f"{losses['loss_total']:.3f}", spread=f"{health.spread:.3f}")
        figures = {**losses, **health._asdict(), "prediction_spread": predictions.spread}
        self._write(step, {**figures, "learning_rate": self.optimiser.param_groups[0]["lr"]})
        message = collapse_warning(health, predictions, step, self.total)
        if message and not self.warned:
            self.warned = True
            if self.fabric.is_global_zero:
                warnings.warn(message, stacklevel=2)

    def _write(self, step: int, figures: dict[str, float]) -> None:
        if self.table and figures:
            self.table.write(step + 1, (step + 1) / self.steps_per_epoch, figures)
        if self.board and figures:
            self.board.log_metrics(figures, step + 1)

    def _bar(self) -> progress.Progress:
        return progress.track(
            "pretraining",
            self.total * self.batch_size,
            done=self.start * self.batch_size,
            shown=self.fabric.is_global_zero,
        )

    def _save(self, step: int) -> None:
        if self.fabric.is_global_zero:
            settings = self._settings()
            checkpoint = Checkpoint(step, self.state.state_dict(), optimiser_tensors(self.optimiser), settings)
            save_checkpoint(self.folder / CHECKPOINT, checkpoint)
        self.fabric.barrier()

    def _settings(self) -> dict[str, Any]:
        return _settings(self.recipe, len(self.batches), self.batch_size, self.fingerprint)

    def _restore(self) -> int:
        path = self.folder / CHECKPOINT
        if not path.exists():
            return 0
        checkpoint = _load_matching(path, self._settings())
        try:
            self.state.load_state_dict(checkpoint.model)
        except RuntimeError:
            raise CheckpointError(f"{path} is of another network; start over with --overwrite") from None
        restore_optimiser(self.optimiser, checkpoint.optimiser)
        return checkpoint.step


def _settings(recipe: Recipe, images: int, batch_size: int, fingerprint: str | None) -> dict[str, Any]:
    """Return the settings that must be the same to resume a run."""
    settings = {"recipe": recipe.model_dump(mode="json"), "images": images, "images in a step": batch_size}
    return settings if fingerprint is None else {**settings, _DATA: fingerprint}


def _load_matching(path: Path, mine: dict[str, Any]) -> Checkpoint:
    """Load the checkpoint; raise a CheckpointError if it was made with other settings."""
    checkpoint = load_checkpoint(path)
    theirs = checkpoint.settings
    for what in ("images", "images in a step"):
        if theirs.get(what) != mine[what]:
            raise CheckpointError(
                f"{path} was made with {theirs.get(what)} {what}, and now there are {mine[what]}; "
                "resume with the original images or pass --overwrite"
            )
    if _DATA in theirs and _DATA in mine and theirs[_DATA] != mine[_DATA]:
        raise CheckpointError(
            f"{path} was made with other images, though as many; resume with those or pass --overwrite"
        )
    try:
        # What an older version did not write, it did by default.
        recipe = make_recipe(theirs["recipe"]).model_dump(mode="json")
    except RecipeError as error:
        raise CheckpointError(f"{path} is of another version ({error}); start over with --overwrite") from None
    for key, value in mine["recipe"].items():
        before = recipe[key]
        if key not in _FREE and before != value:
            raise CheckpointError(
                f"{path} was made with {key}={before!r}, and now it is {value!r}; "
                "resume with the original settings or pass --overwrite"
            )
    return checkpoint


def _fabric(recipe: Recipe) -> Any:
    """Return Lightning Fabric for one process, or for those that torchrun started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.fabric import Fabric
        from lightning.fabric.strategies.ddp import DDPStrategy

        local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        world = int(os.environ.get("WORLD_SIZE", 1))
        fabric = Fabric(
            devices=local,
            num_nodes=world // local,
            # Without broadcasts of buffers, which break several forward passes per step: batch norms are synchronised.
            strategy=DDPStrategy(broadcast_buffers=False) if world > 1 else "auto",
            precision=recipe.precision,
        )
        fabric.launch()
    return fabric


def _center(recipe: Recipe) -> Center:
    arguments = recipe.target_temperature, recipe.center_momentum
    return Center(*arguments) if recipe.prior is None else PriorCenter(*arguments, recipe.prior)


def _batch_size(recipe: Recipe, images: int, processes: int) -> int:
    """Return the recipe's batch size, or all images if there are fewer, as a multiple of its parts."""
    parts = processes * recipe.accumulate
    size = min(recipe.batch_size, images) // parts * parts
    if size < 2 * parts:
        raise TrainingError(
            f"{images} images in batches of {recipe.batch_size} are too few to train on with {processes} processes "
            f"and accumulate={recipe.accumulate}: each part of a batch needs two; regime=calibrated needs no training"
        )
    return size


def _mixed(*numbers: int) -> int:
    """Return one seed from several numbers; similar numbers give unrelated seeds."""
    seed = 0
    for number in numbers:
        seed = (seed * 6364136223846793005 + number + 1442695040888963407) % 2**63
    return seed ^ (seed >> 31)


def _tensorboard(folder: Path) -> Any:
    try:
        from lightning.fabric.loggers.tensorboard import TensorBoardLogger

        return TensorBoardLogger(folder, name="tensorboard", version="")
    except ModuleNotFoundError:
        raise TrainingError("--tensorboard needs the package tensorboard: pip install tensorboard") from None
