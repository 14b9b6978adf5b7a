"""How long a command takes to start: `python benchmarks/bench_startup.py`, processor seconds, best of several."""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from andornot.data import open_images
from andornot.demo import write_scenes
from timing import Row, print_table

IMAGES = 50


def seconds(*command: str) -> float:
    """Processor time of one run: on a shared machine it means more than the time on the wall."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        images, gallery = Path(folder, "scenes"), Path(folder, "g")
        write_scenes(open_images(f"scenes:?count={IMAGES}"), images)
        seconds("-m", "andornot", "index", str(images), "--gallery", str(gallery))
        first, second = sorted(path.name for path in images.iterdir())[:2]
        commands = {
            "import torch": ("-c", "import torch"),
            "--version": ("-m", "andornot", "--version"),
            "search --help": ("-m", "andornot", "search", "--help"),
            f"search, {IMAGES} images": (
                "-m",
                "andornot",
                "search",
                f"{first} & ~{second}",
                "--gallery",
                str(gallery),
            ),
        }
        best = {name: min(seconds(*command) for _ in range(runs)) for name, command in commands.items()}
    ratios = {name: used / best["import torch"] for name, used in best.items()}
    rows = [Row(f"`{name}`", ratio, "≤ 1.5", ratio <= 1.5) for name, ratio in ratios.items() if name != "import torch"]
    print_table("startup, processor time over `import torch`", rows)


if __name__ == "__main__":
    main()
