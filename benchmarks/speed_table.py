"""Runs all benchmarks or the named ones, and writes one table to docs/speed.md: `make bench BENCH='logic web'`."""

import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import torch

from andornot import __version__

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "speed.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- end -->)", re.DOTALL)


def main() -> None:
    """Run the named benchmarks, or all, and replace the rows of the page that they measured again."""
    names = sys.argv[1:] or sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))
    rows = read_rows(PAGE.read_text(encoding="utf-8"))
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder, "rows")
            subprocess.run(
                [sys.executable, HERE / f"bench_{name}.py"], check=True, env={**os.environ, "BENCH_ROWS": str(kept)}
            )
            new = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []
        rows = [row for row in rows if not new or not row.startswith(f"| {name} |")] + [
            format_row(name, *row) for row in new
        ]
        write_rows(rows)


def read_rows(page: str) -> list[str]:
    """Return the rows of the page's table."""
    found = TABLE.search(page)
    assert found is not None, f"{PAGE} has no place for the table"
    return [line for line in found[0].splitlines() if re.match(r"\| \w+ \| (?!what)", line)]


def format_row(name: str, title: str, what: str, ratio: float, target: str, met: bool) -> str:
    """Return a row of the table."""
    aim = target.strip("- ") + ("" if met else ", missed")
    date = datetime.now(UTC).date().isoformat()
    return f"| {name} | {title}: {what.replace('|', chr(92) + '|')} | {ratio:.3g} | {aim} | {date} |"


def write_rows(rows: list[str]) -> None:
    """Write the table to the page; those of other benchmarks stay."""
    made = f"andornot {__version__}, torch {torch.__version__}, {os.cpu_count()} processors; written by `make bench`."
    table = "\n".join(
        ["", made, "", "| file | what | number | aim | measured |", "| --- | --- | --- | --- | --- |", *sorted(rows)]
    )
    PAGE.write_text(TABLE.sub(lambda _: f"{table}\n\n", PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
