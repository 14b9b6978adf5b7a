"""Monitor training: detect collapse (all images get the same representation), log metrics, and draw curves."""

import csv
import io
import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from ..errors import AndornotError, require_packages, unknown
from ..files import write_atomically
from ..logic import Representation

# A feature is dead if the standard deviation of its degree over images is below this.
DEAD_SPREAD: Final = 0.01
# Features are mostly redundant if the effective rank is below this fraction of its maximum.
LOW_RANK: Final = 0.1
# Steps before the first warning: healthy runs look collapsed in their first steps.
PATIENCE: Final = 100


class Health(NamedTuple):
    """Statistics of one batch of targets or predictions."""

    spread: float  # standard deviation of the degrees over images, mean over features
    entropy: float  # of the distributions of an image: 0 one-hot, 1 uniform
    usage: float  # entropy of a feature's average distribution: 0 always the same truth value, 1 uniform
    dead: float  # fraction of features whose degree hardly differs between images
    effective_rank: float  # of the degrees, at most images - 1


def measure_health(batch: Representation) -> Health:
    """Compute the statistics of targets or predictions `(B, N, M)`."""
    spread = batch.degrees.std(0, unbiased=False)
    return Health(
        spread.mean().item(),
        _entropy(batch.probs).mean().item(),
        _entropy(batch.probs.mean(0)).mean().item(),
        (spread < DEAD_SPREAD).float().mean().item(),
        effective_rank(batch.degrees),
    )


@torch.no_grad()
def effective_rank(rows: Tensor) -> float:
    """Compute RankMe (Garrido et al. 2023) of centered rows `(n, d)`: the exponential of the entropy of their spectrum.

    It ranges from 1 (all rows on a line) to min(n - 1, d) (all directions used equally). It is 0 if all rows are equal.

    >>> effective_rank(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    2.0
    """
    rows = rows.double()
    strengths = torch.linalg.svdvals(rows - rows.mean(0))
    shares = strengths / strengths.sum().clamp(min=torch.finfo(strengths.dtype).tiny)
    return round(torch.special.entr(shares).sum().exp().item(), 6) if bool(strengths.any()) else 0.0


def collapse_warning(targets: Health, predictions: Health, step: int, total: int, directions: int) -> str | None:
    """Return a warning with advice if the run looks collapsed after its first steps or at its end, else None.

    `directions` is the highest possible effective rank of the batch: min(B - 1, N).
    """
    if step < PATIENCE and step + 1 < total:
        return None
    advice = "try a lower learning_rate, a larger batch_size, or crops that keep more (views)"
    if targets.spread < 2 * DEAD_SPREAD:
        return f"collapsed: images get the same degrees (spread {targets.spread:.3f}); {advice}"
    if predictions.spread < DEAD_SPREAD:
        return (
            f"collapsed: the model predicts the same degrees for all images (spread {predictions.spread:.3f}); "
            f"try prediction_temperature=0.1, as in the paper, or {advice.removeprefix('try ')}"
        )
    if targets.dead > 0.5 and step >= PATIENCE:
        return f"collapsing: {targets.dead:.0%} of the features do not tell images apart; {advice}"
    if targets.effective_rank < LOW_RANK * directions and step >= PATIENCE:
        return (
            f"collapsing: the degrees have an effective rank of {targets.effective_rank:.1f} of {directions}; "
            f"try decorrelation=1, or {advice.removeprefix('try ')}"
        )
    return None


def _entropy(probs: Tensor) -> Tensor:
    """Compute the entropy over the last dimension, scaled to 0 to 1."""
    return -(probs * probs.clamp(min=1e-12).log()).sum(-1) / math.log(probs.shape[-1])


class Logger(Protocol):
    """A Lightning logger, or any object with these two methods."""

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Write the metrics of a step."""

    def finalize(self, status: str) -> None:
        """Flush and close the log after the last step."""


LOGGERS: Final = ("tensorboard", "wandb")


def open_loggers(loggers: Iterable[Logger | str], folder: Path) -> list[Logger]:
    """Return loggers; names are opened: "tensorboard" writes to the folder, "wandb" to a new run."""
    return [_open_logger(logger, folder) if isinstance(logger, str) else logger for logger in loggers]


def _open_logger(name: str, folder: Path) -> Logger:
    if name not in LOGGERS:
        raise AndornotError(unknown("logger", name, LOGGERS))
    require_packages(f"logging to {name}", name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "wandb":
            import wandb

            return _WandbRun(wandb.init(project="andornot", name=folder.name, dir=folder, reinit="create_new"))
        from lightning.fabric.loggers.tensorboard import TensorBoardLogger

        board: Logger = TensorBoardLogger(folder, name=name, version="")
        return board


class _WandbRun:
    """A Weights & Biases run. Lightning's logger does the same, but takes seconds to import."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self._run.log(metrics, step=step)

    def finalize(self, status: str) -> None:
        self._run.finish(exit_code=0 if status == "success" else 1)


class Log:
    """A CSV log. New metrics add columns. When a run is resumed, rows after its checkpoint are dropped."""

    def __init__(self, path: Path, start: int, steps_per_epoch: int) -> None:
        self.path, self.steps_per_epoch = path, steps_per_epoch
        self.rows: list[dict[str, str]] = []
        self.columns = ["step", "epoch"]
        if start and path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    if row.get("step", "").isdigit() and int(row["step"]) <= start:
                        self._append({key: value for key, value in row.items() if key and value})
        self._rewrite()

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        """Append a row."""
        row = {"step": str(step), "epoch": f"{step / self.steps_per_epoch:.3f}"}
        row |= {key: f"{value:.6g}" for key, value in metrics.items()}
        grown = self._append(row)
        if grown:
            self._rewrite()
        else:
            try:
                with self.path.open("a", newline="") as file:
                    csv.DictWriter(file, self.columns).writerow(row)
            except OSError as error:  # e.g. a full disk: add the path to the message
                raise OSError(error.errno, error.strerror, str(self.path)) from None

    def finalize(self, status: str) -> None:
        """Do nothing: rows are written immediately."""

    def _append(self, row: dict[str, str]) -> bool:
        self.rows.append(row)
        new = [key for key in row if key not in self.columns]
        self.columns += new
        return bool(new)

    def _rewrite(self) -> None:
        # Write atomically: if the run is killed, the rows before its checkpoint must remain.
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns)
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomically(self.path, lambda partial: partial.write_bytes(text.getvalue().encode()))


# The panels of curves.png: title, and prefixes of the columns it shows.
_PANELS: Final = {
    "losses": ("loss_",),
    "degrees over a batch": ("spread", "entropy", "usage", "dead", "prediction_spread"),
    "effective rank": ("effective_rank",),
    "accuracy on held-out images": ("knn_", "linear_"),
}


def draw_curves(log: Path, path: Path) -> None:
    """Plot the columns of log.csv over the steps as a PNG, with one panel per kind of metric."""
    from matplotlib.figure import Figure

    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = list(rows[0]) if rows else []
    panels = {title: [name for name in columns if name.startswith(starts)] for title, starts in _PANELS.items()}
    panels = {title: names for title, names in panels.items() if names}
    figure = Figure(figsize=(10, 2.4 * len(panels)), layout="constrained")
    for axes, (title, names) in zip(figure.subplots(len(panels), squeeze=False).flat, panels.items(), strict=True):
        for name in names:
            points = [(int(row["step"]), float(row[name])) for row in rows if row[name]]
            axes.plot(*zip(*points, strict=True), label=name, linewidth=1.2, marker="." if len(points) < 20 else None)
        axes.set_title(title, loc="left", fontsize=10)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    axes.set_xlabel("step")
    write_atomically(path, lambda partial: figure.savefig(partial, format="png", dpi=120))
