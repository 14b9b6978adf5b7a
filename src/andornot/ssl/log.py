"""log.csv: the figures of a training, a line every few steps."""

import csv
import io
from pathlib import Path

from ..files import write_atomically


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
        """Adds a line."""
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
