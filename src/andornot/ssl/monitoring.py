"""Monitor a training: detect collapse (all images get the same representation), and write log.csv."""

import csv
import io
import math
from pathlib import Path
from typing import Final, NamedTuple

from torch import Tensor

from ..files import write_atomically
from ..logic import Representation

# A degree that differs less than this between images tells nothing about them.
DEAD_SPREAD: Final = 0.01
# The first steps of a healthy run are flat too.
PATIENCE: Final = 100


class Health(NamedTuple):
    """Figures of one batch of targets or predictions."""

    spread: float  # standard deviation of the degrees over images, mean over features
    entropy: float  # of an image's distributions: 0 crisp, 1 even
    usage: float  # entropy of a feature's average distribution: 0 always the same truth value, 1 all alike
    dead: float  # part of the features whose degree hardly differs between images


def measure_health(batch: Representation) -> Health:
    """Compute the statistics of targets or predictions `(B, N, M)`."""
    spread = batch.degrees.std(0, unbiased=False)
    return Health(
        spread.mean().item(),
        _entropy(batch.probs).mean().item(),
        _entropy(batch.probs.mean(0)).mean().item(),
        (spread < DEAD_SPREAD).float().mean().item(),
    )


def collapse_warning(targets: Health, predictions: Health, step: int, total: int) -> str | None:
    """Return a warning with advice if the run looks collapsed after its first steps, or at its end; else None."""
    if step < PATIENCE and step + 1 < total:
        return None
    advice = "try a lower learning_rate, a lower center_momentum, a larger batch_size, or crops that keep more (views)"
    if targets.spread < 2 * DEAD_SPREAD:
        return f"collapsed: images get the same degrees (spread {targets.spread:.3f}); {advice}"
    if predictions.spread < DEAD_SPREAD:
        return (
            f"collapsed: the model predicts the same degrees for all images (spread {predictions.spread:.3f}); "
            f"try prediction_temperature=0.1, as in the paper, or {advice.removeprefix('try ')}"
        )
    if targets.dead > 0.5 and step >= PATIENCE:
        return f"collapsing: {targets.dead:.0%} of the features do not tell images apart; {advice}"
    return None


def _entropy(probs: Tensor) -> Tensor:
    """Compute the entropy over the last dimension, from 0 to 1."""
    return -(probs * probs.clamp(min=1e-12).log()).sum(-1) / math.log(probs.shape[-1])


class Log:
    """Columns come with the figures that have them. A resumed run goes on where its checkpoint was."""

    def __init__(self, path: Path, start: int) -> None:
        self.path = path
        self.rows: list[dict[str, str]] = []
        self.columns = ["step", "epoch"]
        if start and path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    if row.get("step", "").isdigit() and int(row["step"]) <= start:
                        self._append({key: value for key, value in row.items() if key and value})
        self._rewrite()

    def write(self, step: int, epoch: float, figures: dict[str, float]) -> None:
        """Append a row."""
        row = {"step": str(step), "epoch": f"{epoch:.3f}", **{key: f"{value:.6g}" for key, value in figures.items()}}
        grown = self._append(row)
        if grown:
            self._rewrite()
        else:
            try:
                with self.path.open("a", newline="") as file:
                    csv.DictWriter(file, self.columns).writerow(row)
            except OSError as error:  # of a full disk, which by itself does not say where
                raise OSError(error.errno, error.strerror, str(self.path)) from None

    def _append(self, row: dict[str, str]) -> bool:
        self.rows.append(row)
        new = [key for key in row if key not in self.columns]
        self.columns += new
        return bool(new)

    def _rewrite(self) -> None:
        # Atomically: what a killed run had logged before its checkpoint is part of the run.
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns)
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomically(self.path, lambda partial: partial.write_bytes(text.getvalue().encode()))
