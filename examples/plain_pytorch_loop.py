"""The paper's method in a plain PyTorch loop: python examples/plain_pytorch_loop.py

Real digits, a small network, 60 steps. Labels are only used at the end, to measure what was learned.
"""

import torch

import andornot as aon
from andornot.ssl import Network, SynthesisLoss, Views, ViewSettings, build_backbone, mixup

STEPS, BATCH, NEAREST = 60, 48, 10


def train(images: torch.Tensor) -> Network:
    """Train a network for representations of 32 features with 4 truth values each."""
    network = Network(build_backbone("conv5", channels=1), num_features=32, num_values=4)
    loss = SynthesisLoss("logic")
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    views = Views(ViewSettings.digits())
    for step in range(STEPS):
        batch = images[torch.randint(len(images), (BATCH,))]
        first, second = views(batch), views(batch)
        mixed = mixup(first, first.roll(1, 0))  # should be predicted as the OR of the two images
        result = loss(network(first), network(second), network(mixed))
        optimiser.zero_grad()
        result.total.backward()
        optimiser.step()
        if step % 20 == 0:
            print(f"step {step:3}   loss {result.total.item():.3f}")
    return network.eval()


@torch.no_grad()
def encode(network: Network, images: torch.Tensor) -> aon.Representation:
    """Return the representations `(B, 32, 4)` of images."""
    return aon.Representation.from_logits(network(images / 255).p, temperature=0.1)


def main() -> None:
    """Train, then measure how many of the training digits nearest to a held-out digit are the same digit."""
    torch.manual_seed(0)
    known, new = (aon.open_images("digits", split=split).resized(28) for split in ("train", "test"))
    network = train(known[:])
    gallery, queries = encode(network, known[:]), encode(network, new[:])
    nearest = aon.degree_distance(queries, gallery).argsort(dim=1)[:, :NEAREST]
    precision = (known.targets[nearest] == new.targets[:, None]).float().mean().item()
    print(f"precision@{NEAREST}: {precision:.2f} (0.10 by chance)")


if __name__ == "__main__":
    main()
