"""Models of images and texts: the towers are those of the package, and any phrase is a word."""

import json
import math
import shutil
import socket
import sys
from contextlib import suppress
from hashlib import sha256

import pytest
import torch
from PIL import Image
from towers import save_joint_model
from transformers import AutoModel, AutoTokenizer

from andornot import FormulaError, Gallery
from andornot.concepts import PhraseVocabulary, UnknownWordError, WordError, vocabulary_for
from andornot.errors import AndornotError
from andornot.model import Model, ModelError, new_backbone
from andornot.ssl.backbones import build_backbone
from andornot.ssl.recipe import make_recipe


@pytest.fixture(scope="module", params=["clip", "siglip"])
def folder(request, tmp_path_factory):
    return save_joint_model(request.param, tmp_path_factory.mktemp("joint") / request.param)


@pytest.fixture(scope="module")
def images():
    return torch.rand(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model(folder, images):
    recipe = make_recipe({"backbone": f"transformers:{folder}", "regime": "calibrated"})
    backbone = new_backbone(recipe, 3).eval()
    return Model.calibrated(backbone, backbone(images), recipe)


def direction(model):
    return vocabulary_for(model.backbone).meaning("cat").direction


def test_the_image_tower_encodes_as_the_original_does(folder, images):
    backbone = build_backbone(f"transformers:{folder}").eval()
    original = AutoModel.from_pretrained(folder).eval()
    wanted = original.get_image_features(pixel_values=backbone.normalise(images)).pooler_output
    assert torch.allclose(backbone(images), wanted, atol=1e-5)
    assert (backbone.size, backbone.width, backbone.has_maps) == (32, wanted.shape[1], False)


def test_images_are_normalised_as_the_models_files_say(tmp_path):
    clip, siglip = (build_backbone(f"transformers:{save_joint_model(k, tmp_path / k)}") for k in ("clip", "siglip"))
    assert (clip.mean, clip.std) == ((0.4, 0.5, 0.6), (0.2, 0.2, 0.3))
    assert (siglip.mean, siglip.std) == ((0.5,) * 3, (0.5,) * 3)
    (tmp_path / "clip" / "preprocessor_config.json").unlink()
    assert build_backbone(f"transformers:{tmp_path / 'clip'}").mean[0] == pytest.approx(0.4815, abs=1e-3)


def test_support_is_the_models_own_probability(folder, model, images):
    words = vocabulary_for(model.backbone)
    assert isinstance(words, PhraseVocabulary)
    evidence = torch.cat([words.evidence(maps) for maps in model.iter_feature_maps(images, progress=False)])
    support = words.support(words.meaning("red dog"), evidence)
    original, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    texts = ["a photo of red dog", "a photo", "a picture", "an image", "a photo of something"]
    seen = model.backbone.normalise(images)
    if hasattr(original, "logit_bias"):
        tokens = tokenizer(texts, padding="max_length", max_length=12, return_tensors="pt")
        logits = original(input_ids=tokens["input_ids"], pixel_values=seen).logits_per_image
        wanted = logits[:, 0].sigmoid()
    else:
        logits = original(**tokenizer(texts, padding=True, return_tensors="pt"), pixel_values=seen).logits_per_image
        wanted = torch.stack([logits[:, 0], logits[:, 1:].mean(1)], 1).softmax(1)[:, 0]
    assert torch.allclose(support, wanted, atol=1e-5)
    assert support.std() > 1e-3


def test_a_saved_model_keeps_its_words(model, images, tmp_path):
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert loaded.id == model.id
    one, other = (vocabulary_for(each.backbone) for each in (model, loaded))
    evidence = one.evidence(next(model.iter_feature_maps(images, progress=False)))
    assert torch.equal(one.support(one.meaning("cat"), evidence), other.support(other.meaning("cat"), evidence))


def test_a_stored_model_needs_nothing_but_its_folder(model, folder, images, tmp_path, no_network):
    model.save(tmp_path / "model")
    description = tmp_path / "model" / "model.json"
    description.write_text(description.read_text().replace(str(folder), str(tmp_path / "nowhere")))
    loaded = Model.load(tmp_path / "model")
    assert torch.equal(loaded.encode(images).probs, model.encode(images).probs)
    assert torch.equal(
        vocabulary_for(loaded.backbone).meaning("cat").direction,
        vocabulary_for(model.backbone).meaning("cat").direction,
    )
    loaded.save(tmp_path / "model")  # in its own place
    again = Model.load(tmp_path / "model")
    assert torch.equal(direction(again), direction(model))
    assert no_network == []


def test_a_stored_model_of_0_2_is_read_from_elsewhere_only_if_that_is_allowed(model, images, tmp_path, no_network):
    model.save(tmp_path / "model")
    without_files(tmp_path / "model")
    with pytest.raises(ModelError, match="are not in its folder: if you trust them, load it with external_files=True"):
        Model.load(tmp_path / "model")
    loaded = Model.load(tmp_path / "model", external_files=True)
    assert torch.equal(loaded.encode(images).probs, model.encode(images).probs)
    assert direction(loaded).isfinite().all()
    assert no_network == []


@pytest.mark.parametrize("external_files", [False, True])
def test_a_stored_model_contacts_nobody(model, tmp_path, no_network, external_files):
    model.save(tmp_path / "model")
    without_files(tmp_path / "model")
    rename_backbone(tmp_path / "model", "transformers:someone/of-the-hub")
    with pytest.raises(ModelError):
        Model.load(tmp_path / "model", external_files=external_files)
    assert no_network == []


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("kind", ["clip", "unheard-of"])
def test_code_that_comes_with_a_model_is_never_run(model, tmp_path, monkeypatch, place, kind):
    asked = []
    monkeypatch.setattr("builtins.input", lambda *text: asked.append(text) or "y")
    model.save(tmp_path / "model")
    folder = tmp_path / "model" / "backbone" if place == "inside" else tmp_path / "evil"
    folder.mkdir(exist_ok=True)
    config = json.loads((tmp_path / "model" / "backbone" / "config.json").read_text())
    code = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": ["evil.Tok", None]}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": kind, "auto_map": code}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": code, "tokenizer_class": "Tok"}))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'w')")
    if place == "outside":
        without_files(tmp_path / "model")
        rename_backbone(tmp_path / "model", f"transformers:{folder}")
    else:
        trust_files(tmp_path / "model")
    with suppress(AndornotError):
        Model.load(tmp_path / "model", external_files=True).backbone.text_tower.encode(["dog"])
    with suppress(AndornotError):
        build_backbone(f"transformers:{folder}").text_tower.encode(["dog"])
    assert asked == []
    assert not (tmp_path / "was-run").exists()


def test_attention_is_never_computed_by_code_from_the_hub(model, tmp_path, no_network):
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "backbone" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "attn_implementation": "someone/kernel"}))
    trust_files(tmp_path / "model")
    assert Model.load(tmp_path / "model").id == model.id
    assert no_network == []


@pytest.mark.parametrize("name", ["config.json", "text.safetensors", "tokenizer.json"])
def test_a_damaged_file_of_a_backbone_is_found(model, tmp_path, name):
    model.save(tmp_path)
    content = bytearray((tmp_path / "backbone" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "backbone" / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name} is missing or damaged"):
        Model.load(tmp_path)


def without_files(folder):
    """Makes the folder one of 0.2, which kept no files of its backbone."""
    shutil.rmtree(folder / "backbone")
    change_description(folder, backbone_files={})


def trust_files(folder):
    """Makes the checksums fit, as whoever changed the files would."""
    digests = {file.name: sha256(file.read_bytes()).hexdigest() for file in (folder / "backbone").iterdir()}
    change_description(folder, backbone_files=digests)


def rename_backbone(folder, name):
    change_description(folder, backbone={"name": name, "channels": 3, "pretrained": True})


def change_description(folder, **changes):
    description = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**description, **changes}))


@pytest.fixture
def no_network(monkeypatch):
    """The addresses that anybody wants to reach."""
    wanted = []

    def refuse(host, *_, **__):
        wanted.append(host)
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: refuse(address))
    return wanted


def test_other_weights_have_no_words(folder):
    backbone = build_backbone(f"transformers:{folder}", pretrained=False)
    with pytest.raises(WordError, match="its weights are not those that its text tower was trained with"):
        PhraseVocabulary(backbone)


@pytest.mark.parametrize("word", ["dog", "a red dog of a cat", "Ünï\ncode \U0001f436", "'\"", "x " * 5_000])
def test_any_phrase_is_a_word(model, word):
    phrase = vocabulary_for(model.backbone).meaning(word)
    assert phrase.direction.isfinite().all()
    assert math.isfinite(phrase.scale)
    assert vocabulary_for(model.backbone).complete("do") == []


def test_an_empty_phrase_is_none(model):
    with pytest.raises(UnknownWordError, match="the word is empty"):
        vocabulary_for(model.backbone).meaning(" \n")


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
    with pytest.raises(AndornotError, match="it is bert, not of images of one size and texts, as CLIP and SigLIP"):
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
    assert gallery.resolve("dog").named["dog"].kind == "image"
    assert gallery.resolve('"red dog"').named["red dog"].kind == "word"
    assert gallery.resolve("word:dog").named["word:dog"].kind == "word"
    with pytest.raises(FormulaError, match=r'unknown name "7\.png"'):
        gallery.resolve("7.png")
    hits = gallery.search('"red dog"', top=6)
    words = vocabulary_for(gallery.model.backbone)
    activations = gallery.model.activations(gallery.paths)
    support = words.support(words.meaning("red dog"), torch.nn.functional.normalize(activations, dim=-1))
    assert [hit.id for hit in hits] == [gallery.ids[place] for place in support.argsort(descending=True).tolist()]
    assert len(gallery.search("word:cat", top=6)) == 6
    with pytest.raises(WordError, match="no list of words to describe images with"):
        gallery.describe(1)
    assert gallery.words("do") == {}
    assert hits[0].words == {}
