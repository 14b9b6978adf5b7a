"""Models of pictures and texts: the towers are those of the package, and any phrase is a word."""

import math
import sys

import pytest
import torch
from PIL import Image
from towers import save_joint_model
from transformers import AutoModel, AutoTokenizer

from andornot import FormulaError, Gallery
from andornot.errors import AndornotError
from andornot.model import Model, new_backbone
from andornot.ssl.backbones import build_backbone
from andornot.ssl.recipe import make_recipe
from andornot.words import Phrases, UnknownWordError, WordError, words_of


@pytest.fixture(scope="module", params=["clip", "siglip"])
def folder(request, tmp_path_factory):
    return save_joint_model(request.param, tmp_path_factory.mktemp("joint") / request.param)


@pytest.fixture(scope="module")
def pictures():
    return torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model(folder, pictures):
    recipe = make_recipe({"backbone": f"transformers:{folder}", "regime": "calibrated"})
    backbone = new_backbone(recipe, 3).eval()
    return Model.calibrated(backbone, backbone(pictures), recipe)


def test_the_image_tower_encodes_as_the_original_does(folder, pictures):
    backbone = build_backbone(f"transformers:{folder}").eval()
    original = AutoModel.from_pretrained(folder).eval()
    wanted = original.get_image_features(pixel_values=backbone.normalise(pictures)).pooler_output
    assert torch.allclose(backbone(pictures), wanted, atol=1e-5)
    assert (backbone.size, backbone.width, backbone.has_maps) == (32, wanted.shape[1], False)


def test_pictures_are_normalised_as_the_models_files_say(tmp_path):
    clip, siglip = (build_backbone(f"transformers:{save_joint_model(k, tmp_path / k)}") for k in ("clip", "siglip"))
    assert (clip.mean, clip.std) == ((0.4, 0.5, 0.6), (0.2, 0.2, 0.3))
    assert (siglip.mean, siglip.std) == ((0.5,) * 3, (0.5,) * 3)
    (tmp_path / "clip" / "preprocessor_config.json").unlink()
    assert build_backbone(f"transformers:{tmp_path / 'clip'}").mean[0] == pytest.approx(0.4815, abs=1e-3)


def test_support_is_the_models_own_probability(folder, model, pictures):
    words = words_of(model)
    assert isinstance(words, Phrases)
    evidence = torch.cat([words.evidence(maps) for maps in model.look(pictures, progress=False)])
    support = words.support(words.meaning("red dog"), evidence)
    original, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    texts = ["a photo of red dog", "a photo", "a picture", "an image", "a photo of something"]
    seen = model.backbone.normalise(pictures)
    if hasattr(original, "logit_bias"):
        tokens = tokenizer(texts, padding="max_length", max_length=12, return_tensors="pt")
        logits = original(input_ids=tokens["input_ids"], pixel_values=seen).logits_per_image
        wanted = logits[:, 0].sigmoid()
    else:
        logits = original(**tokenizer(texts, padding=True, return_tensors="pt"), pixel_values=seen).logits_per_image
        wanted = torch.stack([logits[:, 0], logits[:, 1:].mean(1)], 1).softmax(1)[:, 0]
    assert torch.allclose(support, wanted, atol=1e-5)
    assert support.std() > 1e-3


def test_a_saved_model_keeps_its_words(model, pictures, tmp_path):
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert loaded.id == model.id
    one, other = (words_of(each) for each in (model, loaded))
    evidence = one.evidence(next(model.look(pictures, progress=False)))
    assert torch.equal(one.support(one.meaning("cat"), evidence), other.support(other.meaning("cat"), evidence))


def test_other_weights_have_no_words(folder):
    backbone = build_backbone(f"transformers:{folder}", pretrained=False)
    with pytest.raises(WordError, match="its weights are not those that its text tower was trained with"):
        Phrases(backbone)


@pytest.mark.parametrize("word", ["dog", "a red dog of a cat", "Ünï\ncode \U0001f436", "'\"", "x " * 5_000])
def test_any_phrase_is_a_word(model, word):
    phrase = words_of(model).meaning(word)
    assert phrase.direction.isfinite().all()
    assert math.isfinite(phrase.scale)
    assert words_of(model).complete("do") == []


def test_an_empty_phrase_is_none(model):
    with pytest.raises(UnknownWordError, match="an empty word means nothing"):
        words_of(model).meaning(" \n")


def test_what_cannot_be_had_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    for name in (tmp_path / "empty", tmp_path / "nowhere"):
        with pytest.raises(AndornotError, match=r"^backbone transformers:.* cannot be built: ") as error:
            build_backbone(f"transformers:{name}")
        assert "\n" not in str(error.value)
    with pytest.raises(AndornotError, match="has 3 channels, not 1"):
        build_backbone("transformers:x", channels=1)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(AndornotError, match=r"needs transformers: pip install 'andornot\[transformers\]'|cannot be"):
        build_backbone("transformers:x")


def test_a_model_of_texts_alone_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(AndornotError, match="it is bert, not of pictures of one size and texts, as CLIP and SigLIP"):
        build_backbone(f"transformers:{tmp_path}")


def test_in_a_gallery_any_phrase_is_a_word_after_files_and_what_looks_like_one_is_none(tmp_path, model, monkeypatch):
    (tmp_path / "photos").mkdir()
    shades = torch.rand(6, 32, 32, 3, generator=torch.Generator().manual_seed(1))
    for number, shade in enumerate(shades):
        Image.fromarray((shade * 255).byte().numpy()).save(tmp_path / "photos" / f"{number}.png")
    gallery = Gallery.create(tmp_path / "g", model)
    gallery.add(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (32, 32)).save(tmp_path / "dog", "png")
    assert gallery.named("dog")["dog"].kind == "picture"
    assert gallery.named('"red dog"')["red dog"].kind == "word"
    assert gallery.named("word:dog")["word:dog"].kind == "word"
    with pytest.raises(FormulaError, match=r'unknown name "7\.png"'):
        gallery.resolve("7.png")
    hits = gallery.search('"red dog"', top=6)
    words, searcher = words_of(gallery.model), gallery._searching
    activations = torch.from_numpy(gallery._features.read(gallery._snapshot.rows)).float()
    support = words.support(words.meaning("red dog"), torch.nn.functional.normalize(activations, dim=-1))
    assert [hit.id for hit in hits] == [gallery.ids[place] for place in support.argsort(descending=True).tolist()]
    assert len(searcher.word_truths.truth(words.meaning("cat"))) == 6
    with pytest.raises(WordError, match="no list of words to describe pictures with"):
        gallery.describe(1)
    assert gallery.words("do") == {}
    assert hits[0].words == ()
