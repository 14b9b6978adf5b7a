"""Images to play with: python examples/draw_scenes.py photos

Draws scenes with one to three things each, as files. A name says what its scene shows: dog.jpg, dog-2.jpg,
cow-tractor.jpg. Nothing else looks at the names.
"""

import sys
from collections import Counter
from pathlib import Path

import andornot as aon


def draw_scenes(folder: Path, spec: str = "scenes:?count=300") -> None:
    """Writes the scenes of a source into a new folder."""
    images = aon.open_images(spec)
    folder.mkdir()
    drawn: Counter[str] = Counter()
    for number in range(len(images)):
        shown = "-".join(name for name, there in zip(images.class_names, images.labels[number], strict=True) if there)
        drawn[shown] += 1
        again = f"-{drawn[shown]}" if drawn[shown] > 1 else ""
        images.read(number).save(folder / f"{shown}{again}.jpg", quality=90)


if __name__ == "__main__":
    draw_scenes(Path(sys.argv[1]))
