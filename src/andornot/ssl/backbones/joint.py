"""`transformers:PATH_OR_NAME`: a model of pictures and texts together, of the CLIP or SigLIP kind.

Its image tower is the backbone. Its text tower makes a direction of any phrase, in the same space.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from .backbone import Backbone, found_width
from .errors import BackboneError
from .packages import import_package

_CLIP_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD: Final = (0.26862954, 0.26130258, 0.27577711)
_HALF: Final = (0.5, 0.5, 0.5)  # SigLIP's mean and deviation
# Where a model says how pictures are normalised; the second is of newer versions of the package.
_PREPROCESSING: Final = ("preprocessor_config.json", "processor_config.json")


class TextTower:
    """Phrases in, directions of unit length `(B, width)` out; `scale` and `bias` turn a cosine into a logit.

    Without a bias (CLIP) a logit says something beside others only; with one (SigLIP) by itself.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model.eval().requires_grad_(False), tokenizer
        self.scale = float(model.logit_scale.exp())
        bias = getattr(model, "logit_bias", None)
        self.bias = None if bias is None else float(bias)

    @torch.no_grad()
    def encode(self, phrases: Sequence[str]) -> Tensor:
        """The direction of each phrase; one that is longer than the tower reads is cut."""
        longest = self._model.config.text_config.max_position_embeddings
        # SigLIP was trained on texts that were filled up to one length.
        padding = True if self.bias is None else "max_length"
        tokens = self._tokenizer(
            list(phrases), padding=padding, truncation=True, max_length=longest, return_tensors="pt"
        )
        given = {name: tokens[name] for name in ("input_ids", "attention_mask") if name in tokens}
        if self.bias is not None:
            given.pop("attention_mask", None)
        return nn.functional.normalize(_pooled(self._model.get_text_features(**given)), dim=-1)


class JointBackbone(Backbone):
    """The image tower as a backbone, which knows the text tower beside it."""

    source: str

    @cached_property
    def text_tower(self) -> TextTower | None:
        """The text tower that was trained with these weights; None if they are others. Read when it is first used."""
        transformers = _library(self.name)
        with _quiet(transformers), _one_line(self.name):
            model = transformers.AutoModel.from_pretrained(self.source)
            tokenizer = transformers.AutoTokenizer.from_pretrained(self.source)
        own, trained = self.network.state_dict(), _ImageTower(model).state_dict()
        same = all(torch.equal(own[name].cpu(), value) for name, value in trained.items())
        return TextTower(model, tokenizer) if same else None


class _ImageTower(nn.Module):
    """Pictures to the space that they share with texts: `(B, 3, H, W)` -> `(B, width)`."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vision_model = model.vision_model
        self.visual_projection = getattr(model, "visual_projection", nn.Identity())

    def forward(self, pictures: Tensor) -> Tensor:
        activations: Tensor = self.visual_projection(_pooled(self.vision_model(pixel_values=pictures)))
        return activations


def build_joint(name: str, *, channels: int, pretrained: bool | None) -> Backbone:
    """`transformers:PATH_OR_NAME`, pretrained unless `pretrained=False`."""
    if channels != 3:
        raise BackboneError(f"{name} has 3 channels, not {channels}; grey pictures are repeated for it")
    source = name.partition(":")[2]
    if Path(source).is_dir():  # so that a model finds it from any folder
        source = str(Path(source).resolve())
        name = f"transformers:{source}"
    transformers = _library(name)
    with _quiet(transformers), _one_line(name):
        config = transformers.AutoConfig.from_pretrained(source)
        size = getattr(getattr(config, "vision_config", None), "image_size", None)
        if not isinstance(size, int) or not hasattr(config, "text_config"):
            raise ValueError(
                f"it is {config.model_type}, not of pictures of one size and texts, as CLIP and SigLIP are"
            )
        model = (
            transformers.AutoModel.from_config(config)
            if pretrained is False
            else transformers.AutoModel.from_pretrained(source)
        )
        if not hasattr(model, "vision_model") or not hasattr(model, "logit_scale"):
            raise ValueError(f"it is {config.model_type}, which has no towers as CLIP and SigLIP have")
        mean, std = _normalisation(transformers, source, config.model_type)
    backbone = JointBackbone(_ImageTower(model), name=name, width=0, size=size, mean=mean, std=std)
    backbone.source = source
    backbone.width = found_width(backbone)
    return backbone


def _library(name: str) -> Any:
    return import_package("transformers", backbone=name, install="'andornot[transformers]'")


def _normalisation(transformers: Any, source: str, kind: str) -> tuple[Sequence[float], Sequence[float]]:
    """Mean and deviation as the model's own files say; else those of its kind."""
    for file in _PREPROCESSING:
        path = transformers.utils.cached_file(source, file, _raise_exceptions_for_missing_entries=False)
        if path is not None:
            said = json.loads(Path(path).read_text(encoding="utf-8"))
            said = said.get("image_processor", said)
            if "image_mean" in said and "image_std" in said:
                return said["image_mean"], said["image_std"]
    return (_HALF, _HALF) if kind.startswith("siglip") else (_CLIP_MEAN, _CLIP_STD)


def _pooled(output: Any) -> Tensor:
    """What the versions of the package return: the vector itself, or an output with it inside."""
    return torch.as_tensor(getattr(output, "pooler_output", output))


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, ImportError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BackboneError(f"backbone {name} cannot be built: {reason}") from error


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without the package's bars and remarks, which are not about what the user asked."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
