"""Where steps come from: fresh views of images, or activations of views that were computed once."""

import copy

import pytest
import torch
from torch import nn

from andornot.ssl.backbones import wrap_backbone
from andornot.ssl.batches import ActivationBatches, ImageBatches, cache_activations
from andornot.ssl.losses import SynthesisLoss, mixup
from andornot.ssl.network import Network
from andornot.ssl.views import Views, ViewSettings

N, M = 2, 3
VIEWS = Views(ViewSettings.digits(8))
NUM_IMAGES = 11


@pytest.fixture
def network():
    """A backbone with a batch norm, whose statistics show when they are left out, or moved."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2, bias=False), nn.BatchNorm2d(6), nn.ReLU())
    layers[1].running_mean.uniform_(-0.3, 0.3)
    layers[1].running_var.uniform_(0.5, 1.5)
    network = Network(wrap_backbone(layers, 6, 8, 1), N, M, 5, 4)
    network.backbone.requires_grad_(False)
    return network


@pytest.fixture
def images():
    return torch.randint(256, (NUM_IMAGES, 1, 9, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


# Views of images


def test_a_batch_of_images_has_two_views_from_the_generator(images):
    indices = torch.tensor([4, 0, 9, 2])
    batches = ImageBatches(images, VIEWS)
    assert len(batches) == NUM_IMAGES
    generator = torch.Generator().manual_seed(3)
    first, second = VIEWS(images[indices], generator), VIEWS(images[indices], generator)
    assert not torch.equal(first, second)
    batch = batches.load(indices, torch.Generator().manual_seed(3))
    assert torch.equal(batch.first, first)
    assert torch.equal(batch.second, second)
    assert batch.mixed is batch.partner is None


# Cached features


def test_cached_features_are_those_of_the_views_and_their_mixtures(network, images):
    """Made once more with the same generator, by the plain backbone in eval mode, batch by batch."""
    cache = cache_activations(network, images, VIEWS, count=3, mixup_lambda=0.3, seed=5, batch_size=4)
    assert len(cache) == NUM_IMAGES
    generator, backbone = torch.Generator().manual_seed(5), network.backbone.eval()
    for view in range(3):
        order = torch.randperm(NUM_IMAGES, generator=generator)
        for indices in order.split(4):
            made = VIEWS(images[indices], generator)
            partners = cache.partners[view, indices]
            places = [indices.tolist().index(partner) for partner in partners.tolist()]
            expected = backbone(made), backbone(mixup(made, made[places], 0.3))
            torch.testing.assert_close(cache.views[view, indices].float(), expected[0], rtol=2e-3, atol=2e-3)
            torch.testing.assert_close(cache.mixed[view, indices].float(), expected[1], rtol=2e-3, atol=2e-3)


def test_partners_are_other_images_each_chosen_once_and_new_in_each_view(network, images):
    partners = cache_activations(network, images[:8], VIEWS, count=3, mixup_lambda=0.5, seed=0, batch_size=4).partners
    for view in partners:
        assert sorted(view.tolist()) == list(range(8))
        assert not (view == torch.arange(8)).any()
    assert not torch.equal(partners[0], partners[1])


def test_a_mixed_feature_is_of_an_image_and_its_partner():
    """Flat images stay flat in any crop, and a backbone that averages tells how bright they are."""
    brightness = torch.arange(10, dtype=torch.uint8) * 20
    flat = brightness.view(-1, 1, 1, 1).expand(-1, 1, 9, 9)
    network = Network(wrap_backbone(nn.Conv2d(1, 1, 1, bias=False), 1, 8, 1), N, M)
    nn.init.ones_(network.backbone.network.weight)
    cache = cache_activations(network, flat, VIEWS, count=2, mixup_lambda=0.25, seed=0, batch_size=5)
    level = brightness / 255
    for view in range(2):
        torch.testing.assert_close(cache.views[view, :, 0].float(), level, rtol=0, atol=1e-3)
        mixture = 0.25 * level + 0.75 * level[cache.partners[view]]
        torch.testing.assert_close(cache.mixed[view, :, 0].float(), mixture, rtol=0, atol=1e-3)


def test_the_cache_is_half_precision_follows_its_seed_and_leaves_the_network_alone(network, images):
    before = copy.deepcopy(network.state_dict())
    arguments = {"count": 2, "mixup_lambda": 0.5, "batch_size": 4}
    cache = cache_activations(network.train(), images, VIEWS, seed=1, **arguments)
    again = cache_activations(network, images, VIEWS, seed=1, **arguments)
    other = cache_activations(network, images, VIEWS, seed=2, **arguments)
    assert cache.views.dtype == cache.mixed.dtype == torch.float16
    assert torch.equal(cache.views, again.views)
    assert torch.equal(cache.mixed, again.mixed)
    assert not torch.equal(cache.views, other.views)
    assert not torch.equal(cache.views[0], cache.views[1])
    assert network.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


# Steps on them


@pytest.fixture
def numbered():
    """A cache of 3 views of 11 images, whose features tell what they are: view, image, mixed or not."""
    view, image = torch.meshgrid(torch.arange(3), torch.arange(NUM_IMAGES), indexing="ij")
    plain = torch.stack([view, image, torch.zeros_like(view)], -1).half()
    mixed = torch.stack([view, image, torch.ones_like(view)], -1).half()
    generator = torch.Generator().manual_seed(0)
    partners = torch.stack([torch.randperm(NUM_IMAGES, generator=generator) for _ in range(3)])
    return ActivationBatches(plain, mixed, partners)


def test_two_different_views_of_each_image_are_taken_and_its_mixture_and_partner_are_of_the_first(numbered):
    indices = torch.tensor([7, 1, 10, 3, 0])
    seen_pairs = set()
    for seed in range(20):
        first, second, mixed, partner = numbered.load(indices, torch.Generator().manual_seed(seed))
        assert first.dtype == torch.float32
        for taken in (first, second, mixed):
            assert torch.equal(taken[:, 1].long(), indices)
        assert (first[:, 0] != second[:, 0]).all()
        seen_pairs |= set(zip(first[:, 0].tolist(), second[:, 0].tolist(), strict=True))
        assert torch.equal(mixed[:, 0], first[:, 0])
        assert mixed[:, 2].all()
        assert not torch.cat([first, second, partner])[:, 2].any()
        assert torch.equal(partner[:, 0], first[:, 0])
        assert torch.equal(partner[:, 1].long(), numbered.partners[first[:, 0].long(), indices])
    assert len(seen_pairs) == 6  # all ordered pairs of three views


def test_only_the_heads_get_gradients_and_the_frozen_backbone_stays_bit_identical(network, images):
    cache = cache_activations(network, images, VIEWS, count=2, mixup_lambda=0.5, seed=0)
    before = copy.deepcopy(network.backbone.state_dict())
    loss = SynthesisLoss()
    optimiser = torch.optim.SGD([p for p in network.train().parameters() if p.requires_grad], 0.1)
    for seed in range(3):
        batch = cache.load(torch.arange(8), torch.Generator().manual_seed(seed))
        first, second, mixed, partner = map(network.project, batch)
        optimiser.zero_grad()
        loss(first, second, mixed, partner.z).total.backward()
        optimiser.step()
    assert all(parameter.grad is None for parameter in network.backbone.parameters())
    heads = [*network.projector.parameters(), *network.predictor.parameters()]
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in heads)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.backbone.state_dict().items())
