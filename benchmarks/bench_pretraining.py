"""What training and encoding cost over the bare network, single-threaded: about two minutes."""

from functools import partial

import torch
from torch import Tensor

from andornot.model import Model, new_network
from andornot.ssl.losses import SynthesisLoss, mixup
from andornot.ssl.network import Network, Outputs
from andornot.ssl.recipe import Recipe, make_recipe
from andornot.ssl.views import Views
from timing import Row, best_ratio, print_table, settle

DIGITS = {"backbone": "conv5", "num_features": 128, "num_values": 8, "views": {"flip": 0, "jitter": 0, "grey": 0}}
CIFAR = {"backbone": "resnet18", "backbone_options": {"stem": "cifar"}, "size": 32}


def bare_step(network: Network, batches: list[Tensor]) -> None:
    """Forward and backward of the network alone, on three batches."""
    network.zero_grad()
    torch.stack([network(batch).p.mean() for batch in batches]).sum().backward()  # type: ignore[no-untyped-call]


def whole_step(
    network: Network, loss: SynthesisLoss, optimiser: torch.optim.Optimizer, first: Tensor, second: Tensor
) -> None:
    """Three views, targets, synthesis, all losses, the center and the optimiser."""
    optimiser.zero_grad()
    mixed = network(mixup(first, first.roll(1, 0)))
    loss(network(first), network(second), mixed).total.backward()
    optimiser.step()


def synthesis_and_losses(loss: SynthesisLoss, outputs: list[Tensor]) -> None:
    """The part of a step that is not the network, forward and backward, from logits (z, p) of three batches."""
    leaves = [output.detach().requires_grad_() for output in outputs]
    one, other, mixed = (Outputs(z, z, p) for z, p in zip(leaves[::2], leaves[1::2], strict=True))
    loss(one, other, mixed).total.backward()


def bench_step(recipe: Recipe, channels: int, batch_size: int, rounds: int) -> list[Row]:
    network = new_network(recipe, channels)
    size = recipe.size or network.backbone.size
    images = torch.randint(256, (batch_size, channels, size, size), dtype=torch.uint8)
    views = Views(recipe.view_settings(size))
    first, second = views(images), views(images)
    loss = SynthesisLoss("logic")
    optimiser = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9, weight_decay=1e-4)
    bare = partial(bare_step, network, [first, second, (first + first.roll(1, 0)) / 2])
    cost, step_seconds, _ = best_ratio(partial(whole_step, network, loss, optimiser, first, second), bare, rounds)
    share, *_ = best_ratio(lambda: (views(images), views(images)), bare, rounds)
    logits = [tensor for batch in (first, second, first) for tensor in network(batch)[1:]]
    part, *_ = best_ratio(partial(synthesis_and_losses, loss, logits), bare, rounds)
    name = f"{recipe.backbone}, batch {batch_size}"
    rows = [
        Row(
            f"a step of logic, times the bare network ({1000 * step_seconds:.0f} ms), {name}",
            cost,
            "≤ 1.15",
            cost <= 1.15,
        ),
        Row(f"two views, part of the bare network's time, {name}", share, "-", True),
    ]
    goal, met = ("≤ 0.10", part <= 0.10) if recipe.backbone == "resnet18" else ("-", True)
    return [*rows, Row(f"synthesis and losses, part of the bare network's time, {name}", part, goal, met)]


def bench_encode(recipe: Recipe, channels: int, count: int, rounds: int) -> Row:
    model = Model.from_network(new_network(recipe, channels), recipe)
    images = torch.rand(count, channels, model.size, model.size)
    model.encode(images)
    with torch.no_grad():
        ratio, *_ = best_ratio(
            lambda: model.encode(images),
            lambda: [model.backbone(batch) for batch in torch.split(images, 64)],
            rounds,
        )
    what = f"encode, speed against the bare backbone, {recipe.backbone}"
    return Row(what, 1 / ratio, "≥ 0.9", 1 / ratio >= 0.9)


def main() -> None:
    settle()
    torch.set_flush_denormal(True)  # as a training does
    digits, cifar = make_recipe(DIGITS), make_recipe(CIFAR)
    lite = make_recipe({"backbone": "efficientnet-lite0", "regime": "frozen"})
    rows = [*bench_step(digits, 1, 128, 9), *bench_step(cifar, 3, 32, 3)]
    rows += [bench_encode(digits, 1, 1024, 6), bench_encode(lite, 3, 64, 3)]
    print_table("pretraining (one thread, best of several runs)", rows)


if __name__ == "__main__":
    main()
