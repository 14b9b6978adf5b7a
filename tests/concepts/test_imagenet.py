"""Words of a backbone with a classifier: evidence, support, truth, and what is kept of it."""

import pytest
import torch
from torch import Tensor, nn

from andornot.concepts import ImageNetVocabulary, QuantizedClasses, WordError, half_point, truth_of, vocabulary_for
from andornot.concepts.imagenet import TEMPERATURE, class_weights
from andornot.model import Model
from andornot.ssl.backbones import build_backbone, wrap_backbone
from andornot.ssl.recipe import make_recipe


class ColourClasses(nn.Module):
    """Stands for a backbone whose classes are the channels of its map."""

    name, classes = "colours", "imagenet-1k"

    def classify(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3))


@pytest.fixture
def maps() -> Tensor:
    return 8 * torch.randn(3, 1000, 7, 7, generator=torch.Generator().manual_seed(0))


def test_a_weight_is_the_mean_of_the_whole_and_the_best_window(maps):
    weights = ImageNetVocabulary(ColourClasses()).evidence(maps)
    for image, weight in zip(maps, weights, strict=True):
        whole = (image.mean((1, 2)) / TEMPERATURE).softmax(0)
        corners = [(top, left) for top in (0, 2, 4) for left in (0, 2, 4)]
        windows = [(image[:, t : t + 3, s : s + 3].mean((1, 2)) / TEMPERATURE).softmax(0) for t, s in corners]
        best = torch.stack(windows).max(0).values
        assert torch.allclose(weight, (whole * best).sqrt(), atol=1e-6)


def test_without_a_map_the_weight_is_the_probability():
    logits = torch.randn(4, 1000, 1, 1)
    assert torch.allclose(
        ImageNetVocabulary(ColourClasses()).evidence(logits), (logits[:, :, 0, 0] / TEMPERATURE).softmax(1)
    )


def test_support_is_the_sum_over_the_nouns_classes():
    words = ImageNetVocabulary(ColourClasses())
    evidence = torch.rand(5, 1000) / 500
    dog = words.meaning("dogs")
    assert torch.allclose(words.support(dog, evidence), sum(evidence[:, number] for number in dog.classes))
    assert words.support(words.meaning("entity"), 10 * evidence).max() == 1


def test_what_shows_in_one_corner_counts():
    logits = torch.zeros(2, 1000, 7, 7)
    logits[0, 207, 4:, 4:] = 30.0
    words = ImageNetVocabulary(ColourClasses())
    there, elsewhere = words.support(words.meaning("golden retriever"), words.evidence(logits))
    assert there > 0.05
    assert elsewhere < 0.01


def test_what_is_kept_is_the_heaviest_to_a_few_percent():
    evidence = torch.rand(4, 1000) ** 40
    kept = QuantizedClasses.of(evidence, keep=32)
    assert (kept.classes.dtype, kept.weights.dtype) == (torch.uint16, torch.uint8)
    again = kept.evidence()
    order = evidence.argsort(1, descending=True)
    heaviest, others = order[:, :32], order[:, 32:]
    assert torch.allclose(again.gather(1, heaviest), evidence.gather(1, heaviest), rtol=0.03, atol=2**-15)
    assert again.gather(1, others).sum() == 0


def test_truth_keeps_the_order_and_is_half_where_one_in_twenty_is():
    support = torch.linspace(0, 0.2, 101)
    truth = truth_of(support)
    assert (truth.diff() > 0).all()
    assert truth[0] == 0
    assert truth[95] == pytest.approx(0.5)
    assert truth.max() <= 1


def test_what_is_sure_is_true_however_common():
    assert truth_of(torch.tensor([0.0, 1.0]), half=0.3).tolist() == [0, 1]


def test_half_the_truth_is_neither_noise_nor_certainty():
    assert half_point(torch.zeros(50)) == 0.01
    assert half_point(torch.ones(50)) == 0.3
    assert half_point(torch.zeros(0)) == 0.01
    odds, even = 0.3 / 0.7, 0.1 / 0.9
    assert truth_of(torch.tensor([0.3]), half=0.1).item() == pytest.approx(odds / (odds + even))
    assert half_point(torch.full((300_001,), 0.05)) == pytest.approx(0.05)


def test_the_default_backbone_has_words_and_describes():
    recipe = make_recipe({"backbone": "efficientnet-lite0", "regime": "calibrated"})
    backbone = build_backbone("efficientnet-lite0").eval()
    model = Model.calibrated(backbone, torch.rand(8, backbone.width), recipe)
    words = vocabulary_for(model.backbone)
    evidence = words.evidence(next(model.iter_feature_maps(torch.rand(2, 3, 224, 224), progress=False)))
    assert evidence.shape == (2, 1000 + 123)
    assert isinstance(words.describe(evidence[0]), list)
    assert "dog" in words.complete("do")


@pytest.mark.parametrize(
    "backbone", [build_backbone("conv5"), build_backbone("efficientnet-lite0", pretrained=False), nn.Conv2d(3, 8, 3)]
)
def test_a_model_without_named_classes_says_so(backbone):
    with pytest.raises(WordError, match="has no words: it has no ImageNet classifier"):
        ImageNetVocabulary(wrap_backbone(backbone, size=32))


def test_weights_of_a_sure_classifier_are_its_probabilities():
    logits = torch.full((1, 5), -100.0)
    logits[0, 2] = 100.0
    assert torch.allclose(class_weights(logits, logits[:, None]), torch.eye(5)[2:3])
