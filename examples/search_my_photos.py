"""Search images by example and by word, with AND, OR and NOT.

python examples/search_my_photos.py                    # drawn scenes: dogs, bicycles, …
python examples/search_my_photos.py ~/ResizedImages 'beach.jpg and not dog'
"""

import sys
import tempfile
from pathlib import Path

import andornot as aon
from draw_scenes import draw_scenes

SCENES = "scenes:?count=120&classes=dog+car+cow+tractor+horse+bicycle+penguin+balloon"

# A formula, and what it asks for.
QUESTIONS = {
    "dog.jpg and bicycle.jpg": "both in one scene",
    "dog-bicycle.jpg and not bicycle.jpg": "the first without the second",
    "tractor or penguin": "words: one of them is enough",
    "dog-bicycle.jpg & dog.jpg": "like what the two share",
}


def search(photos: Path, folder: Path, formulas: list[str]) -> None:
    """Makes a gallery of the photos in a folder, and asks it."""
    gallery = aon.Gallery.create(folder)
    gallery.add(photos)
    print(f"{len(gallery)} images")
    for formula in formulas:
        print(f"\n{formula}   {QUESTIONS.get(formula, '')}")
        for hit in gallery.search(formula, top=4):
            print(f"   {hit.truth:4.0%}{' weak' if hit.is_weak else '     '}  {Path(hit.path).name}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        room = Path(temporary)
        if sys.argv[1:]:
            search(Path(sys.argv[1]), room / "gallery", sys.argv[2:])
        else:
            draw_scenes(room / "scenes", SCENES)
            search(room / "scenes", room / "gallery", list(QUESTIONS))
