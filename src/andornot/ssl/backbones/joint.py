"""`transformers:PATH_OR_NAME`: vision-language models such as CLIP and SigLIP.

The image tower is the backbone. The text tower maps phrases to directions in the same space.
"""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from .backbone import Backbone, BackboneError, found_width, import_package

_CLIP_MEAN: Final = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD: Final = (0.26862954, 0.26130258, 0.27577711)
_HALF: Final = (0.5, 0.5, 0.5)  # SigLIP's mean and standard deviation
# The files with the normalisation of images; the second is written by newer versions of transformers.
_PREPROCESSING: Final = ("preprocessor_config.json", "processor_config.json")
# The weights of the text tower in the folder of a stored model; those of the image tower are with the model's weights.
_TEXT_WEIGHTS: Final = "text.safetensors"
_IMAGE_PARTS: Final = ("vision_model.", "visual_projection.")


class TextTower:
    """Map phrases to directions of unit length `(B, width)`; `scale` and `bias` turn a cosine into a logit.

    Logits without a bias (CLIP) are only meaningful relative to others; logits with one (SigLIP) are absolute.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model.eval().requires_grad_(False), tokenizer
        # Copy weights: those mapped from a file are not aligned in memory, which changes the last bit of directions.
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
        self.scale = float(model.logit_scale.exp())
        bias = getattr(model, "logit_bias", None)
        self.bias = None if bias is None else float(bias)

    def save(self, folder: Path) -> list[str]:
        """Write the weights and the tokenizer, and return the names of the files."""
        weights = {n: t.contiguous() for n, t in self._model.state_dict().items() if not n.startswith(_IMAGE_PARTS)}
        save_file(weights, folder / _TEXT_WEIGHTS)
        written = [Path(path) for path in self._tokenizer.save_pretrained(folder)]
        return [_TEXT_WEIGHTS, *(path.name for path in written if path.is_file())]

    @torch.no_grad()
    def encode(self, phrases: Sequence[str]) -> Tensor:
        """Return the direction of each phrase; phrases longer than the tower's context are truncated."""
        longest = self._model.config.text_config.max_position_embeddings
        # SigLIP was trained on texts padded to a fixed length.
        padding = True if self.bias is None else "max_length"
        tokens = self._tokenizer(
            list(phrases), padding=padding, truncation=True, max_length=longest, return_tensors="pt"
        )
        given = {name: tokens[name] for name in ("input_ids", "attention_mask") if name in tokens}
        if self.bias is not None:
            given.pop("attention_mask", None)
        return nn.functional.normalize(_pooled(self._model.get_text_features(**given)), dim=-1)


class JointBackbone(Backbone):
    """The image tower as a backbone, with access to the text tower."""

    source: str
    joint_config: Any
    local: bool
    stored: bool

    @cached_property
    def text_tower(self) -> TextTower | None:
        """The text tower trained with these weights, loaded on first use; None if the weights are different ones."""
        transformers = _library(self.name)
        with _quiet(transformers), _one_line(self.name):
            if self.stored:
                return self._stored_text_tower(transformers)
            model = _read_model(transformers, self.source, self.joint_config, local=self.local)
            own, trained = self.network.state_dict(), _ImageTower(model).state_dict()
            if not all(torch.equal(own[name].cpu(), value) for name, value in trained.items()):
                return None
            return TextTower(model, _read_tokenizer(transformers, self.source, local=self.local))

    def save_files(self, folder: Path) -> list[str]:
        """Write the files that rebuild a stored model without its source, and return their names.

        If the text tower cannot be read or does not match the weights, the stored model does not support phrases.
        """
        try:
            tower = self.text_tower
        except BackboneError as error:
            warnings.warn(f"the model is saved without its text tower: {error}", stacklevel=2)
            tower = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _TEXT_WEIGHTS).unlink(missing_ok=True)
        self.joint_config.save_pretrained(folder)
        (folder / _PREPROCESSING[0]).write_text(json.dumps({"image_mean": self.mean, "image_std": self.std}))
        names = ["config.json", _PREPROCESSING[0]]
        return names if tower is None else [*names, *tower.save(folder)]

    def _stored_text_tower(self, transformers: Any) -> TextTower | None:
        folder = Path(self.source)
        if not (folder / _TEXT_WEIGHTS).exists():
            return None
        model = transformers.AutoModel.from_config(self.joint_config, trust_remote_code=False)
        missing, unexpected = model.load_state_dict(load_file(folder / _TEXT_WEIGHTS), strict=False)
        if unexpected or any(not name.startswith(_IMAGE_PARTS) for name in missing):
            raise ValueError(f"{_TEXT_WEIGHTS} does not fit config.json")
        return TextTower(model, _read_tokenizer(transformers, self.source, local=True))


class _ImageTower(nn.Module):
    """Map images `(B, 3, H, W)` to embeddings `(B, width)` in the space shared with texts."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.vision_model = model.vision_model
        self.visual_projection = getattr(model, "visual_projection", nn.Identity())

    def forward(self, images: Tensor) -> Tensor:
        activations: Tensor = self.visual_projection(_pooled(self.vision_model(pixel_values=images)))
        return activations


def build_joint(
    name: str, *, channels: int, pretrained: bool | None, files: Path | None = None, local: bool = False
) -> Backbone:
    """Build `transformers:PATH_OR_NAME`, pretrained unless `pretrained=False`.

    `local` forbids downloads. With `files`, a folder written by `save_files`, nothing else is read. Code that comes
    with a model is never run.
    """
    if channels != 3:
        raise BackboneError(f"{name} has 3 channels, not {channels}; grey images are repeated for it")
    source = name.partition(":")[2]
    if files is not None:
        source = str(files)
    elif Path(source).is_dir():  # absolute, so that it does not depend on the working directory
        source = str(Path(source).resolve())
        name = f"transformers:{source}"
    elif local:
        source = _downloaded(name, source)
    transformers = _library(name)
    with _quiet(transformers), _one_line(name):
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False, local_files_only=local)
        size = getattr(getattr(config, "vision_config", None), "image_size", None)
        if not isinstance(size, int) or not hasattr(config, "text_config"):
            raise ValueError(f"it is {config.model_type}, not of images of one size and texts, as CLIP and SigLIP are")
        config._attn_implementation = None  # a config may name attention code on the hub
        if pretrained is False:
            model = transformers.AutoModel.from_config(config, trust_remote_code=False)
        else:
            model = _read_model(transformers, source, config, local=local)
        if not hasattr(model, "vision_model") or not hasattr(model, "logit_scale"):
            raise ValueError(f"it is {config.model_type}, which has no towers as CLIP and SigLIP have")
        mean, std = _normalisation(transformers, source, config.model_type, local=local)
    backbone = JointBackbone(_ImageTower(model), name=name, width=0, size=size, mean=mean, std=std)
    backbone.source, backbone.joint_config = source, config
    backbone.local, backbone.stored = local, files is not None
    backbone.width = found_width(backbone)
    return backbone


def _downloaded(name: str, source: str) -> str:
    """Return the folder of a downloaded hub model, offline: `local_files_only` alone would still contact the hub."""
    hub = import_package("huggingface_hub", backbone=name, install="'andornot[transformers]'")
    with _one_line(name):
        config = hub.try_to_load_from_cache(source, "config.json")
        if not isinstance(config, str):
            raise ValueError("it is not on this machine")
        return str(Path(config).parent)


def _read_model(transformers: Any, source: str, config: Any, *, local: bool) -> Any:
    return transformers.AutoModel.from_pretrained(
        source, config=config, trust_remote_code=False, local_files_only=local
    )


def _read_tokenizer(transformers: Any, source: str, *, local: bool) -> Any:
    return transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, local_files_only=local)


def _library(name: str) -> Any:
    return import_package("transformers", backbone=name, install="'andornot[transformers]'")


def _normalisation(
    transformers: Any, source: str, kind: str, *, local: bool
) -> tuple[Sequence[float], Sequence[float]]:
    """Return mean and standard deviation from the model's files, or the defaults of its family."""
    for file in _PREPROCESSING:
        path = transformers.utils.cached_file(
            source, file, _raise_exceptions_for_missing_entries=False, local_files_only=local
        )
        if path is not None:
            said = json.loads(Path(path).read_text(encoding="utf-8"))
            said = said.get("image_processor", said)
            if "image_mean" in said and "image_std" in said:
                return said["image_mean"], said["image_std"]
    return (_HALF, _HALF) if kind.startswith("siglip") else (_CLIP_MEAN, _CLIP_STD)


def _pooled(output: Any) -> Tensor:
    """Return the embedding, which some versions of transformers wrap in an output object."""
    return torch.as_tensor(getattr(output, "pooler_output", output))


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # untrusted files can make transformers raise any exception
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BackboneError(f"backbone {name} cannot be built: {reason}") from error


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Silence the progress bars and log messages of transformers."""
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
