"""The training loop, with checkpoints to resume from.

Lightning Fabric handles devices, processes and precision. The loop is our own, because a resumed run must end
bit-identical to an uninterrupted one. So randomness has no state: the order of images depends on the seed and the
epoch, views on the seed and the step.
"""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from .. import progress
from ..errors import AndornotError, Stopped
from ..logic import Representation
from .batches import Batch, Batches, LoaderBatches, Schedule, mix_seeds
from .checkpoint import (
    Checkpoint,
    CheckpointError,
    load_matching,
    optimiser_tensors,
    restore_optimiser,
    run_settings,
    save_checkpoint,
)
from .losses import Synthesis, SynthesisLoss, SynthesisOutput, mixup
from .monitoring import Log, Logger, collapse_warning, effective_rank, measure_health, open_loggers
from .network import Network
from .recipe import Recipe
from .runtime import restored_generators, stop_signals, synchronise_batch_norms, without_denormals
from .targets import Center, PriorCenter

CHECKPOINT: Final = "checkpoint.safetensors"
LOG: Final = "log.csv"


class TrainingError(AndornotError):
    """Raised when training cannot start or continue; the message says what to change."""


class EpochProgress(NamedTuple):
    """The progress of training, for callbacks after each epoch."""

    epoch: int
    epochs: int
    network: Network


Loss = Callable[..., "SynthesisOutput | Tensor"]
"""Maps the outputs for two views and for mixed images (none with "vanilla") to the loss; see `SynthesisLoss`."""


def train(
    recipe: Recipe,
    network: Network,
    batches: Batches,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    log_every: int = 20,
    loggers: Sequence[Logger | str] = (),
    after_epoch: Callable[[EpochProgress], dict[str, float]] | None = None,
    synthesis: Synthesis | None = None,
    loss: Loss | None = None,
    fingerprint: str | None = None,
) -> Network:
    """Train the network in place and return it; write log.csv and the checkpoint to `folder`.

    `synthesis` is a function that replaces the recipe's synthesis, and `loss` one that replaces `SynthesisLoss`; if it
    is a module, it is trained and saved with the network. `fingerprint` is a digest of the data, which must be the same
    to resume a run.
    """
    with restored_generators():
        training = _Training(
            recipe, network, batches, Path(folder), resume, log_every, loggers, synthesis, loss, fingerprint
        )
        status = "failed"
        try:
            training.run(after_epoch)
            status = "success"
        finally:
            for logger in training.loggers:
                logger.finalize(status)
    return network


def check_training(
    recipe: Recipe, images: int | None, folder: Path, *, resume: bool = False, fingerprint: str | None = None
) -> None:
    """Raise the errors of `train` for the precision, too few images or another run's checkpoint, without training.

    `images` is the number of images, None for a loader.
    """
    _check_precision(recipe)
    batch_size = recipe.batch_size
    if images is not None:
        batch_size = _batch_size(recipe, images, int(os.environ.get("WORLD_SIZE", 1)))
    if resume and (folder / CHECKPOINT).exists():
        load_matching(folder / CHECKPOINT, run_settings(recipe, images, batch_size, fingerprint))


class _Part(NamedTuple):
    """The result of a part of a step; `targets` is None with a custom loss."""

    losses: dict[str, Tensor]
    targets: Representation | None
    predictions: Representation
    activations: Tensor


class _Training:
    def __init__(
        self,
        recipe: Recipe,
        network: Network,
        batches: Batches,
        folder: Path,
        resume: bool,
        log_every: int,
        loggers: Sequence[Logger | str],
        synthesis: Synthesis | None,
        loss: Loss | None,
        fingerprint: str | None,
    ) -> None:
        self.fingerprint = fingerprint
        if log_every < 1:
            raise TrainingError(f"log_every must be at least 1, got {log_every}")
        self.recipe, self.batches, self.folder, self.log_every = recipe, batches, folder, log_every
        self.fabric = _fabric(recipe)
        if isinstance(batches, LoaderBatches):
            self.images, self.batch_size, steps = None, recipe.batch_size, batches.steps_per_epoch
        else:
            self.images = len(batches)
            self.batch_size = _batch_size(recipe, len(batches), self.fabric.world_size)
            steps = len(batches) // self.batch_size
        self.total = _total_steps(recipe, steps)
        self.steps_per_epoch = steps or self.total
        self.mixes = recipe.synthesis != "vanilla"
        self.loss = loss or new_loss(recipe, synthesis)
        if self.fabric.world_size > 1:
            synchronise_batch_norms(network, self.fabric.device)
        self.state = nn.ModuleDict({"network": network})
        if isinstance(self.loss, nn.Module):
            if self.fabric.world_size > 1 and any(True for _ in self.loss.parameters()):
                raise TrainingError("a loss with parameters of its own can be trained in one process only")
            self.state["loss"] = self.loss.to(self.fabric.device)
        optimiser = torch.optim.SGD(
            [parameter for parameter in self.state.parameters() if parameter.requires_grad],
            recipe.peak_learning_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )
        with warnings.catch_warnings():  # broadcast_buffers has a new name in some versions of torch
            warnings.simplefilter("ignore")
            self.network, self.optimiser = self.fabric.setup(network, optimiser)
        self.network.mark_forward_method("project")
        self.encode = self.network.project if batches.are_activations else self.network
        self.bare = network
        self.start = self._restore() if resume else 0
        self.warned = False
        self.loggers: list[Logger] = []
        if self.fabric.is_global_zero:
            self.loggers = [Log(folder / LOG, self.start, self.steps_per_epoch), *open_loggers(loggers, folder)]

    def run(self, after_epoch: Callable[[EpochProgress], dict[str, float]] | None) -> None:
        self.bare.train()
        saved = time.monotonic()
        schedule = Schedule(
            seed=self.recipe.seed,
            images=self.images or 0,
            batch_size=self.batch_size,
            start=self.start,
            total=self.total,
            accumulate=self.recipe.accumulate,
            rank=self.fabric.global_rank,
            processes=self.fabric.world_size,
        )
        batches = self.batches.iterate(schedule, self.fabric.device)
        with without_denormals(), stop_signals() as stop, self._bar() as bar:
            for step in range(self.start, self.total):
                parts = self._step(step, batches)
                last = step + 1 == self.total
                self._report(step, parts, bar)
                if (last or (step + 1) % self.steps_per_epoch == 0) and after_epoch and self.fabric.is_global_zero:
                    epoch, epochs = (-(-done // self.steps_per_epoch) for done in (step + 1, self.total))
                    figures = after_epoch(EpochProgress(epoch, epochs, self.bare))
                    self.bare.train()
                    self._write(step, figures)
                    if figures:
                        bar.say(f"epoch {epoch}: " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))
                due, asked = self._agree(time.monotonic() - saved > self.recipe.checkpoint_seconds, stop.asked)
                if due or asked or last:
                    self._save(step + 1)
                    saved = time.monotonic()
                if asked and not last:
                    raise Stopped(f"stopped after step {step + 1} of {self.total}, and saved")

    def _step(self, step: int, batches: Iterator[Batch]) -> list[_Part]:
        """Do one optimiser step and return the results of the parts of its batch."""
        recipe = self.recipe
        for group in self.optimiser.param_groups:
            group["lr"] = recipe.peak_learning_rate * (1 + math.cos(math.pi * step / self.total)) / 2
        self.optimiser.zero_grad()
        parts = []
        for number in range(recipe.accumulate):
            batch = next(batches)
            # Dropout and similar layers use torch's global generator.
            torch.manual_seed(mix_seeds(recipe.seed, step * recipe.accumulate + number, self.fabric.global_rank))
            with self.fabric.no_backward_sync(self.network, enabled=number + 1 < recipe.accumulate):
                result = self._compute_loss(batch)
                self.fabric.backward(result.losses["total"] / recipe.accumulate)
            parts.append(result)
        if not math.isfinite(loss := sum(part.losses["total"].item() for part in parts)):
            raise TrainingError(
                f"the loss became {loss} at step {step + 1} of {self.total}; "
                "start over (--overwrite) with a lower learning_rate, or with precision=32-true"
            )
        self.optimiser.step()
        return parts

    def _compute_loss(self, batch: Batch) -> _Part:
        first, second = self.encode(batch.first), self.encode(batch.second)
        inputs = [first, second]
        if self.mixes and batch.mixed is None:
            inputs.append(self.encode(mixup(batch.first, batch.first.roll(1, 0), self.recipe.mixup_lambda)))
        elif self.mixes and batch.partner is not None:
            inputs += [self.encode(batch.mixed), self.encode(batch.partner).z]
        result = self.loss(*inputs)
        if isinstance(result, SynthesisOutput):
            losses = {name: loss for name, loss in result.losses._asdict().items() if loss is not None}
            return _Part(losses, result.targets[0].representation, result.prediction, first.activations.detach())
        temperature = self.recipe.prediction_temperature
        predictions = Representation.from_logits(first.p.detach().float(), temperature, validate=False)
        return _Part({"total": result}, None, predictions, first.activations.detach())

    def _agree(self, *wishes: bool) -> list[bool]:
        """Combine flags over processes with OR: clocks and signals differ, but all must save after the same step."""
        if self.fabric.world_size == 1:
            return list(wishes)
        numbers = torch.tensor(wishes, dtype=torch.int32, device=self.fabric.device)
        return [bool(number) for number in self.fabric.all_reduce(numbers, reduce_op="max")]

    def _report(self, step: int, parts: list[_Part], bar: progress.Progress) -> None:
        bar.update(self.batch_size)
        if (step + 1) % self.log_every and step + 1 != self.total:
            return
        predictions = measure_health(Representation.cat([part.predictions for part in parts]))
        targets = [part.targets for part in parts if part.targets is not None]
        health = measure_health(Representation.cat(targets)) if targets else predictions
        losses = {
            f"loss_{name}": sum(part.losses[name].item() for part in parts) / len(parts) for name in parts[0].losses
        }
        bar.note(loss=f"{losses['loss_total']:.3f}", spread=f"{health.spread:.3f}", rank=f"{health.effective_rank:.1f}")
        activations = torch.cat([part.activations for part in parts])
        figures = {**losses, **health._asdict(), "effective_rank_features": effective_rank(activations)}
        figures["prediction_spread"] = predictions.spread
        self._write(step, {**figures, "learning_rate": self.optimiser.param_groups[0]["lr"]})
        directions = min(len(activations) - 1, self.recipe.num_features)
        message = collapse_warning(health, predictions, step, self.total, directions)
        if message and not self.warned:
            self.warned = True
            if self.fabric.is_global_zero:
                warnings.warn(message, stacklevel=2)

    def _write(self, step: int, figures: dict[str, float]) -> None:
        if figures:
            for logger in self.loggers:
                logger.log_metrics(figures, step + 1)

    def _bar(self) -> progress.Progress:
        return progress.track(
            "pretraining",
            self.total * self.batch_size,
            done=self.start * self.batch_size,
            shown=self.fabric.is_global_zero,
        )

    def _save(self, step: int) -> None:
        if self.fabric.is_global_zero:
            checkpoint = Checkpoint(
                step,
                self.state.state_dict(),
                optimiser_tensors(self.optimiser),
                self._settings(),
                self.fabric.strategy.precision.state_dict(),
            )
            save_checkpoint(self.folder / CHECKPOINT, checkpoint)
        self.fabric.barrier()

    def _settings(self) -> dict[str, Any]:
        return run_settings(self.recipe, self.images, self.batch_size, self.fingerprint)

    def _restore(self) -> int:
        path = self.folder / CHECKPOINT
        if not path.exists():
            return 0
        checkpoint = load_matching(path, self._settings())
        try:
            self.state.load_state_dict(checkpoint.model)
        except RuntimeError:
            raise CheckpointError(f"{path} is of another network; start over with --overwrite") from None
        restore_optimiser(self.optimiser, checkpoint.optimiser)
        self.fabric.strategy.precision.load_state_dict(checkpoint.scaler)
        return checkpoint.step


def _check_precision(recipe: Recipe) -> None:
    """Raise an error if Lightning would compute in another precision than the recipe's."""
    if recipe.precision == "16-mixed" and not torch.accelerator.is_available():
        raise TrainingError("precision=16-mixed needs a GPU; on a CPU set precision to bf16-mixed or 32-true")


def _fabric(recipe: Recipe) -> Any:
    """Return Lightning Fabric for one process, or for those that torchrun started."""
    _check_precision(recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lightning.fabric import Fabric
        from lightning.fabric.strategies.ddp import DDPStrategy

        local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        world = int(os.environ.get("WORLD_SIZE", 1))
        fabric = Fabric(
            devices=local,
            num_nodes=world // local,
            # Broadcasting buffers fails with several forward passes per step, and synchronised batch norms need none.
            strategy=DDPStrategy(broadcast_buffers=False) if world > 1 else "auto",
            precision=recipe.precision,
        )
        fabric.launch()
    return fabric


def new_loss(recipe: Recipe, synthesis: Synthesis | None = None) -> SynthesisLoss:
    """Return the loss of a recipe; `synthesis` is a function that replaces the one it names."""
    arguments = recipe.target_temperature, recipe.center_momentum
    return SynthesisLoss(
        synthesis or recipe.synthesis,
        center=Center(*arguments) if recipe.prior is None else PriorCenter(*arguments, recipe.prior),
        temperature=recipe.prediction_temperature,
        mixup_lambda=recipe.mixup_lambda,
        alpha=recipe.alpha,
        beta=recipe.beta,
        decorrelation=recipe.decorrelation,
        accumulate=recipe.accumulate,
    )


def _total_steps(recipe: Recipe, steps_per_epoch: int | None) -> int:
    if recipe.steps is not None:
        return recipe.steps
    if not steps_per_epoch:
        raise TrainingError("the length of a stream is not known; set steps in the recipe, such as steps=10000")
    return steps_per_epoch * recipe.epochs


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
