"""What version 0.1 wrote is read: the recipe in a model's folder, its description, and a checkpoint."""

import json
from pathlib import Path

import pytest
import torch
import yaml

from andornot.model import DESCRIPTION, Model, new_network
from andornot.ssl.checkpoint import Checkpoint, CheckpointError, save_checkpoint
from andornot.ssl.recipe import Recipe, load_recipe, make_recipe
from andornot.ssl.training import CHECKPOINT, check_training

# As 0.1 wrote it, key for key: `views` is what the recipe said, `crops_from` was not there yet.
RECIPE = json.loads("""{
  "regime": "scratch", "backbone": "conv5", "backbone_options": {"width": 8}, "num_features": 3, "num_values": 4,
  "projector_hidden": null, "predictor_hidden": 8, "size": null, "fit": "crop",
  "views": {"crop_scale": [0.5, 1], "flip": 0, "jitter": 0, "grey": 0, "blur": 0.5}, "cached_views": 4,
  "synthesis": "mean", "mixing": 0.5, "alpha": 0.5, "beta": 0.6, "prediction_temperature": 0.1,
  "target_temperature": 0.04, "centre_momentum": 0.9, "prior": 0.3, "epochs": 6, "batch_size": 64,
  "learning_rate": 0.1, "learning_rate_batch": null, "momentum": 0.9, "weight_decay": 0.0001, "accumulate": 1,
  "precision": "32-true", "seed": 0, "checkpoint_seconds": 60.0,
  "calibration": {"power": 4.0, "doubt": 0.05, "levels": 129}
}""")


def recipe() -> Recipe:
    return make_recipe(
        {
            "backbone": "conv5",
            "backbone_options": {"width": 8},
            "num_features": 3,
            "num_values": 4,
            "predictor_hidden": 8,
            "views": {"crop_scale": [0.5, 1.0], "flip": 0, "jitter": 0, "grey": 0},
            "synthesis": "mean",
            "beta": 0.6,
            "prior": 0.3,
            "epochs": 6,
            "batch_size": 64,
            "learning_rate": 0.1,
        }
    )


def test_a_recipe(tmp_path):
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    assert load_recipe(tmp_path / "recipe.yaml") == recipe()


@pytest.mark.parametrize("views", [RECIPE["views"], {**RECIPE["views"], "size": 24}, {}])
def test_a_model(views, tmp_path):
    model = Model.from_network(new_network(recipe(), channels=1), recipe())
    model.save(tmp_path)
    description = json.loads((tmp_path / DESCRIPTION).read_text())
    assert description.keys() == {
        "format", "backbone", "num_features", "num_values", "temperatures", "size", "channels", "recipe", "weights",
        "versions",
    }  # fmt: skip
    description["recipe"] = {**RECIPE, "views": views}
    (tmp_path / DESCRIPTION).write_text(json.dumps(description))
    again = Model.load(tmp_path)
    pictures = torch.rand(2, 1, 28, 28)
    assert again.id == model.id
    assert torch.equal(again.encode(pictures).probs, model.encode(pictures).probs)


def checkpoint(folder: Path, **changes: object) -> None:
    settings = {"recipe": {**RECIPE, **changes}, "pictures": 640, "pictures in a step": 64}
    save_checkpoint(folder / CHECKPOINT, Checkpoint(7, {}, {}, settings))


def test_a_checkpoint_goes_on_with_what_it_began_with(tmp_path):
    checkpoint(tmp_path)
    check_training(recipe(), 640, tmp_path, resume=True)
    checkpoint(tmp_path, views={**RECIPE["views"], "flip": 0.5})
    with pytest.raises(CheckpointError, match=r"was made with views=.*; a run goes on with the settings it began with"):
        check_training(recipe(), 640, tmp_path, resume=True)
    checkpoint(tmp_path, views={**RECIPE["views"], "size": 24})
    with pytest.raises(CheckpointError, match=r'of another version \(unknown key "views.size".*--overwrite'):
        check_training(recipe(), 640, tmp_path, resume=True)
