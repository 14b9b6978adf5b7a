"""Images for the benchmarks that look at files, where none are given."""

from pathlib import Path

from PIL import Image

from andornot.data import open_images


def draw(folder: Path) -> Path:
    """500 drawn scenes as JPEGs in a new folder."""
    folder.mkdir()
    scenes = open_images("scenes:?count=500&size=480")
    for number in range(len(scenes)):
        image = Image.fromarray(scenes.images[number].permute(1, 2, 0).numpy())
        image.save(folder / f"{number:04}.jpg", quality=90)
    return folder
