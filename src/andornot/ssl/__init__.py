"""How a model is learned: parts that work in a plain PyTorch loop.

`docs/pretraining.md` has such a loop; `andornot.pretraining` has the one behind `andornot pretrain`.
"""

from .backbones import Backbone, build_backbone, wrap_backbone
from .heads import Predictor, Projector
from .losses import Losses, Pair, proposed_loss
from .network import Network, Objective
from .recipe import Recipe, load_recipe
from .synthesis import SYNTHESES, mix_pictures
from .targets import Centre, PriorCentre, Target
from .views import Views, ViewSettings

__all__ = [
    "SYNTHESES",
    "Backbone",
    "Centre",
    "Losses",
    "Network",
    "Objective",
    "Pair",
    "Predictor",
    "PriorCentre",
    "Projector",
    "Recipe",
    "Target",
    "ViewSettings",
    "Views",
    "build_backbone",
    "load_recipe",
    "mix_pictures",
    "proposed_loss",
    "wrap_backbone",
]
