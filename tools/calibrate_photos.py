"""Make the calibration that `Model.pretrained` uses: python tools/calibrate_photos.py PHOTOS

Writes quantiles of the backbone's activations, no image, to src/andornot/recipes/photos.safetensors. The shipped file
was made from the 2,191 images of COCO's val2017 with an even id: those with an odd one are for measuring.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from andornot import Model, open_images
from andornot.model import PHOTO_CALIBRATION, new_backbone, photo_recipe


def main() -> None:
    """Calibrate on all images below a folder."""
    images = open_images(f"folder:{sys.argv[1]}")
    recipe = photo_recipe()
    backbone = new_backbone(recipe, channels=3)
    model = Model(backbone, nn.Identity(), recipe)
    model.reserve(len(images))
    activations = torch.cat([model.activations(part, progress=False) for part in images.read_parts(model.size)])
    head = Model.calibrated(backbone, activations, recipe).head
    file = Path(__file__).parents[1] / "src" / "andornot" / PHOTO_CALIBRATION
    # Half precision: a rank is off by less than a thousandth.
    save_file({"quantiles": head.get_buffer("quantiles").to(torch.float16)}, file, {"images": str(len(images))})
    print(f"{file}: {file.stat().st_size:,} bytes, of {len(images):,} images")


if __name__ == "__main__":
    main()
