"""Search pictures by example, with OR, AND and "without".

python examples/search_my_photos.py                    # drawn scenes: dogs, bicycles, …
python examples/search_my_photos.py ~/Pictures 'beach.jpg - crowd.jpg'
"""

import sys
import tempfile
from pathlib import Path

import andornot as aon

THINGS = "dog+car+cow+tractor+horse+bicycle+penguin+balloon"

# A formula, and what it asks for.
QUESTIONS = {
    "dog-bicycle.jpg & dog.jpg": "what the two share",
    "dog-bicycle.jpg - bicycle.jpg": "the first without the second",
    "dog.jpg | bicycle.jpg": "a scene with both; the hardest, and mostly it finds one of them",
}


def draw_scenes(folder: Path) -> None:
    """Scenes as files. A name says what its scene shows; the search does not look at names."""
    images = aon.open_images(f"scenes:?count=120&classes={THINGS}")
    folder.mkdir()
    seen: dict[str, int] = {}
    for number in range(len(images)):
        shown = "-".join(name for name, there in zip(images.class_names, images.labels[number], strict=True) if there)
        seen[shown] = seen.get(shown, 0) + 1
        name = f"{shown}.jpg" if seen[shown] == 1 else f"{shown}-{seen[shown]}.jpg"
        images.read(number).save(folder / name)


def main(arguments: list[str]) -> None:
    """Makes a gallery of a folder, in a temporary place, and asks it."""
    with tempfile.TemporaryDirectory() as temporary:
        photos = Path(arguments[0]) if arguments else Path(temporary) / "scenes"
        if not arguments:
            draw_scenes(photos)
        gallery = aon.Gallery.create(Path(temporary) / "gallery")
        gallery.add(photos)
        print(f"{len(gallery)} pictures")
        for formula in arguments[1:] or QUESTIONS:
            print(f"\n{formula}   {QUESTIONS.get(formula, '')}")
            for hit in gallery.search(formula, top=4):
                print(f"   {hit.distance:.3f}  {Path(hit.path).name}")


if __name__ == "__main__":
    main(sys.argv[1:])
