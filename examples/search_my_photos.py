"""Search pictures by example, with OR, AND and "without".

python examples/search_my_photos.py                    # drawn scenes: dogs, bicycles, …
python examples/search_my_photos.py ~/Pictures 'beach.jpg - crowd.jpg'
"""

import sys
import tempfile
from pathlib import Path

import andornot as aon
from draw_scenes import draw_scenes

SCENES = "scenes:?count=120&classes=dog+car+cow+tractor+horse+bicycle+penguin+balloon"

# A formula, and what it asks for.
QUESTIONS = {
    "dog-bicycle.jpg & dog.jpg": "what the two share",
    "dog-bicycle.jpg - bicycle.jpg": "the first without the second",
    "dog.jpg | bicycle.jpg": "a scene with both; the hardest, and mostly it finds one of them",
}


def search(photos: Path, folder: Path, formulas: list[str]) -> None:
    """Makes a gallery of the photos in a folder, and asks it."""
    gallery = aon.Gallery.create(folder)
    gallery.add(photos)
    print(f"{len(gallery)} pictures")
    for formula in formulas:
        print(f"\n{formula}   {QUESTIONS.get(formula, '')}")
        for hit in gallery.search(formula, top=4):
            print(f"   {hit.distance:.3f}  {Path(hit.path).name}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        room = Path(temporary)
        if sys.argv[1:]:
            search(Path(sys.argv[1]), room / "gallery", sys.argv[2:])
        else:
            draw_scenes(room / "scenes", SCENES)
            search(room / "scenes", room / "gallery", list(QUESTIONS))
