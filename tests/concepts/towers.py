"""Small random models of images and texts, saved as people have them."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast, SiglipConfig, SiglipModel

_WORDS = (
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "a",
    "photo",
    "image",
    "an",
    "image",
    "of",
    "something",
    "dog",
    "cat",
    "red",
)
_TEXT = {
    "vocab_size": len(_WORDS), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "max_position_embeddings": 12, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip
_VISION = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip


def save_joint_model(kind: str, folder: Path) -> Path:
    """A CLIP or SigLIP model with a tokenizer of a few words, in `folder`."""
    torch.manual_seed(0)
    if kind == "clip":
        model = CLIPModel(CLIPConfig(text_config=_TEXT, vision_config=_VISION, projection_dim=12))
    else:
        model = SiglipModel(SiglipConfig(text_config=_TEXT, vision_config=_VISION))
        model.logit_scale.data.fill_(2.0)
        model.logit_bias.data.fill_(-1.5)
    for parameter in model.parameters():  # the package starts them so small that all images look alike
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    model.eval().save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    if kind == "clip":
        (folder / "preprocessor_config.json").write_text(
            json.dumps({"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.2, 0.3]})
        )
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(_WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("<s>", 2), ("</s>", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
