"""The training loop: from pictures to a trained network, in a folder that a killed run can go on from.

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
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from .. import progress
from ..errors import AndornotError, Stopped
from ..logic import Representation
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    load_checkpoint,
    optimiser_tensors,
    restore_optimiser,
    save_checkpoint,
)
from .collapse import collapse_warning, measure_health
from .denormals import without_denormals
from .distributed import synchronise_batch_norms
from .log import Log
from .network import Network, Objective, StepResult
from .recipe import Recipe, RecipeError, make_recipe
from .signals import stop_signals
from .synthesis import Synthesis
from .targets import Centre, PriorCentre

CHECKPOINT: Final = "checkpoint.safetensors"
LOG: Final = "log.csv"
# Settings that a resumed run may change.
_FREE: Final = ("checkpoint_seconds",)


class TrainingError(AndornotError):
    """A training that cannot go on, with what to change."""


class Batches(Protocol):
    """Where a step's views come from: pictures that are augmented, or cached activations."""

    def __len__(self) -> int:
        """How many pictures there are."""

    def compute(self, objective: Objective, indices: Tensor, generator: torch.Generator) -> StepResult:
        """Runs the objective on the pictures with these numbers."""


class Progress(NamedTuple):
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
    after_epoch: Callable[[Progress], dict[str, float]] | None = None,
    synthesis: Synthesis | None = None,
) -> Network:
    """Trains the network in place, logging to `folder`/log.csv, and returns it; the checkpoint stays in the folder.

    `synthesis` is a function of your own in the place of the one that the recipe names.
    """
    return _Training(recipe, network, batches, Path(folder), resume, log_every, tensorboard, synthesis).run(after_epoch)


def check_training(recipe: Recipe, pictures: int, folder: Path, *, resume: bool = False) -> None:
    """Raises what `train` would for too few pictures or a checkpoint of another run, before anything is written."""
    batch_size = _batch_size(recipe, pictures, int(os.environ.get("WORLD_SIZE", 1)))
    if resume and (folder / CHECKPOINT).exists():
        _load_matching(folder / CHECKPOINT, _settings(recipe, pictures, batch_size))


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
    ) -> None:
        self.recipe, self.batches, self.folder, self.log_every = recipe, batches, folder, log_every
        self.fabric = _fabric(recipe)
        self.batch_size = _batch_size(recipe, len(batches), self.fabric.world_size)
        self.steps_per_epoch = len(batches) // self.batch_size
        self.total = self.steps_per_epoch * recipe.epochs
        objective = Objective(
            network,
            _centre(recipe),
            synthesis or recipe.synthesis,
            temperature=recipe.prediction_temperature,
            mixing=recipe.mixing,
            alpha=recipe.alpha,
            beta=recipe.beta,
        )
        if self.fabric.world_size > 1:
            synchronise_batch_norms(objective, self.fabric.device)
        trainable = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        optimiser = torch.optim.SGD(
            trainable, recipe.peak_learning_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
        )
        self.objective, self.optimiser = self.fabric.setup(objective, optimiser)
        self.objective.mark_forward_method("compare")
        self.bare = objective
        self.start = self._restore() if resume else 0
        self.warned = False
        self.table: Log | None = None
        self.board: Any = None
        if self.fabric.is_global_zero:
            self.table = Log(folder / LOG, self.start)
            self.board = _tensorboard(folder) if tensorboard else None

    def run(self, after_epoch: Callable[[Progress], dict[str, float]] | None) -> Network:
        self.bare.train()
        saved = time.monotonic()
        with without_denormals(), stop_signals() as stop, self._bar() as bar:
            for step in range(self.start, self.total):
                parts = self._step(step)
                epoch_ends = (step + 1) % self.steps_per_epoch == 0
                self._report(step, parts, bar)
                if epoch_ends and after_epoch and self.fabric.is_global_zero:
                    epoch = (step + 1) // self.steps_per_epoch
                    figures = after_epoch(Progress(epoch, self.recipe.epochs, self.bare.network))
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
        return self.bare.network

    def _step(self, step: int) -> list[StepResult]:
        """One step of the optimiser; the results of the parts that its batch is split into."""
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
            with self.fabric.no_backward_sync(self.objective, enabled=number + 1 < len(parts)):
                result = self.batches.compute(self.objective, indices, generator)
                self.fabric.backward(result.losses.total / len(parts))
            results.append(result)
            losses.append(result.losses.total.item())
        if not math.isfinite(loss := sum(losses)):
            raise TrainingError(
                f"the loss became {loss} at step {step + 1} of {self.total}; "
                "start anew (--overwrite) with a lower learning_rate, or with precision=32-true"
            )
        self.optimiser.step()
        self.bare.centre.update(*(target for result in results for target in result.targets))
        return results

    def _agree(self, *wishes: bool) -> list[bool]:
        """What any process wishes: clocks and signals differ between them, and all must save after the same step."""
        if self.fabric.world_size == 1:
            return list(wishes)
        numbers = torch.tensor(wishes, dtype=torch.int32, device=self.fabric.device)
        return [bool(number) for number in self.fabric.all_reduce(numbers, reduce_op="max")]

    def _indices(self, step: int) -> Tensor:
        """The numbers of this process's pictures in a step; an epoch's last, incomplete batch is dropped."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if getattr(self, "_epoch", None) != epoch:
            generator = torch.Generator().manual_seed(_mixed(self.recipe.seed, epoch))
            self._epoch, self._order = epoch, torch.randperm(len(self.batches), generator=generator)
        batch = self._order[position * self.batch_size : (position + 1) * self.batch_size]
        mine: Tensor = batch.chunk(self.fabric.world_size)[self.fabric.global_rank]
        return mine

    def _report(self, step: int, parts: list[StepResult], bar: progress.Progress) -> None:
        bar.update(self.batch_size)
        if (step + 1) % self.log_every and step + 1 != self.total:
            return
        health = measure_health(Representation.cat([part.targets[0].representation for part in parts]))
        losses = {
            f"loss_{name}": sum(getattr(part.losses, name).item() for part in parts) / len(parts)
            for name, loss in parts[0].losses._asdict().items()
            if loss is not None
        }
        bar.note(loss=f"{losses['loss_total']:.3f}", spread=f"{health.spread:.3f}")
        self._write(step, {**losses, **health._asdict(), "learning_rate": self.optimiser.param_groups[0]["lr"]})
        message = collapse_warning(health, step)
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
            settings = _settings(self.recipe, len(self.batches), self.batch_size)
            checkpoint = Checkpoint(step, self.bare.state_dict(), optimiser_tensors(self.optimiser), settings)
            save_checkpoint(self.folder / CHECKPOINT, checkpoint)
        self.fabric.barrier()

    def _restore(self) -> int:
        path = self.folder / CHECKPOINT
        if not path.exists():
            return 0
        checkpoint = _load_matching(path, _settings(self.recipe, len(self.batches), self.batch_size))
        try:
            self.bare.load_state_dict(checkpoint.model)
        except RuntimeError:
            raise CheckpointError(f"{path} is of another network; start anew with --overwrite") from None
        restore_optimiser(self.optimiser, checkpoint.optimiser)
        return checkpoint.step


def _settings(recipe: Recipe, pictures: int, batch_size: int) -> dict[str, Any]:
    """What a run must go on with. The batch of another number of processes may be smaller than the recipe's."""
    return {"recipe": recipe.model_dump(mode="json"), "pictures": pictures, "pictures in a step": batch_size}


def _load_matching(path: Path, mine: dict[str, Any]) -> Checkpoint:
    """The checkpoint, if it was made with these settings."""
    checkpoint = load_checkpoint(path)
    theirs = checkpoint.settings
    for what in ("pictures", "pictures in a step"):
        if theirs.get(what) != mine[what]:
            raise CheckpointError(
                f"{path} was made with {theirs.get(what)} {what}, and now there are {mine[what]}; "
                "a run goes on with what it began with, or starts anew with --overwrite"
            )
    try:
        # What an older version did not write, it did by default.
        recipe = make_recipe(theirs["recipe"]).model_dump(mode="json")
    except RecipeError as error:
        raise CheckpointError(f"{path} is of another version ({error}); start anew with --overwrite") from None
    for key, value in mine["recipe"].items():
        before = recipe[key]
        if key not in _FREE and before != value:
            raise CheckpointError(
                f"{path} was made with {key}={before!r}, and now it is {value!r}; "
                "a run goes on with the settings it began with, or starts anew with --overwrite"
            )
    return checkpoint


def _fabric(recipe: Recipe) -> Any:
    """Lightning Fabric for one process, or for those that torchrun started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.fabric import Fabric

        local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        world = int(os.environ.get("WORLD_SIZE", 1))
        fabric = Fabric(
            devices=local,
            num_nodes=world // local,
            strategy="ddp" if world > 1 else "auto",
            precision=recipe.precision,
        )
        fabric.launch()
    return fabric


def _centre(recipe: Recipe) -> Centre:
    arguments = recipe.num_features, recipe.num_values, recipe.target_temperature, recipe.centre_momentum
    return Centre(*arguments) if recipe.prior is None else PriorCentre(*arguments, recipe.prior)


def _batch_size(recipe: Recipe, pictures: int, processes: int) -> int:
    """The recipe's, or all pictures if there are fewer, as a multiple of the parts that it is split into."""
    parts = processes * recipe.accumulate
    size = min(recipe.batch_size, pictures) // parts * parts
    if size < 2 * parts:
        raise TrainingError(
            f"{pictures} pictures in batches of {recipe.batch_size} are too few to train on with {processes} processes "
            f"and accumulate={recipe.accumulate}: each part of a batch needs two; regime=calibrated needs no training"
        )
    return size


def _mixed(*numbers: int) -> int:
    """One seed from several numbers, so that neighbours are unlike each other."""
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
