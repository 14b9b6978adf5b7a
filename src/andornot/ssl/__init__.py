"""Self-supervised learning: building blocks for a plain PyTorch loop.

`docs/pretraining.md` has such a loop; `andornot.pretraining` has the one behind `andornot pretrain`.
"""

from .backbones import Backbone, build_backbone, wrap_backbone
from .batches import ImageBatches, LoaderBatches, PairBatches
from .losses import DEFAULT_BETA, SYNTHESES, Losses, SynthesisLoss, SynthesisOutput, TargetPair, mixup, proposed_loss
from .network import Network, Predictor, Projector
from .recipe import Recipe, load_recipe
from .targets import Center, PriorCenter, Target
from .training import train
from .views import Views, ViewSettings

__all__ = [
    "DEFAULT_BETA",
    "SYNTHESES",
    "Backbone",
    "Center",
    "ImageBatches",
    "LoaderBatches",
    "Losses",
    "Network",
    "PairBatches",
    "Predictor",
    "PriorCenter",
    "Projector",
    "Recipe",
    "SynthesisLoss",
    "SynthesisOutput",
    "Target",
    "TargetPair",
    "ViewSettings",
    "Views",
    "build_backbone",
    "load_recipe",
    "mixup",
    "proposed_loss",
    "train",
    "wrap_backbone",
]
