"""Networks that turn images into pooled activations, behind one interface.

>>> import torch
>>> backbone = build_backbone("resnet18", stem="cifar")
>>> backbone(torch.rand(2, 3, 32, 32)).shape       # images from 0 to 1, (B, C, H, W) -> (B, width)
torch.Size([2, 512])
"""

from .acceleration import accelerate, is_worthwhile
from .backbone import Backbone, hash_tensors, wrap_backbone
from .inference import Window, compute_in_parts, cut_windows, in_parts, optimise_for_inference, windows_of
from .joint import JointBackbone, TextTower
from .registry import backbone_names, build_backbone, rebuild_backbone

__all__ = [
    "Backbone",
    "JointBackbone",
    "TextTower",
    "Window",
    "accelerate",
    "backbone_names",
    "build_backbone",
    "compute_in_parts",
    "cut_windows",
    "hash_tensors",
    "in_parts",
    "is_worthwhile",
    "optimise_for_inference",
    "rebuild_backbone",
    "windows_of",
    "wrap_backbone",
]
