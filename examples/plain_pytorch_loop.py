"""The paper's method in a plain PyTorch loop: python examples/plain_pytorch_loop.py

Real digits, a small network, 60 steps, no labels. Labels are only used at the end, to see what was learned.
"""

import torch

import andornot as aon
from andornot.ssl import Centre, Network, Objective, Views, ViewSettings, build_backbone

STEPS, BATCH, NEAREST = 60, 48, 10


def train(pictures: torch.Tensor) -> Network:
    """Learns representations of 32 features with 4 truth values each."""
    network = Network(build_backbone("conv5", channels=1), num_features=32, num_values=4)
    objective = Objective(network, Centre(32, 4), synthesis="logic", alpha=0.5, beta=0.6)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    views = Views(ViewSettings.digits())
    for step in range(STEPS):
        batch = pictures[torch.randint(len(pictures), (BATCH,))]
        result = objective(views(batch), views(batch))  # it mixes pairs itself, and knows what their OR should be
        optimiser.zero_grad()
        result.losses.total.backward()
        optimiser.step()
        objective.centre.update(*result.targets)
        if step % 20 == 0:
            print(f"step {step:3}   loss {result.losses.total.item():.3f}")
    return network.eval()


@torch.no_grad()
def encode(network: Network, pictures: torch.Tensor) -> aon.Representation:
    """What the network says of pictures, `(B, 32, 4)`."""
    return aon.Representation.from_logits(network(pictures / 255).p, temperature=0.1)


def main() -> None:
    """Trains, and looks how often the training digits nearest to a held-out one are the same digit."""
    torch.manual_seed(0)
    known, new = (aon.open_images("digits", split=split).pictures(28) for split in ("train", "test"))
    network = train(known[:])
    gallery, queries = encode(network, known[:]), encode(network, new[:])
    nearest = aon.degree_distance(queries, gallery).argsort(dim=1)[:, :NEAREST]
    digits, asked = known.labels.int().argmax(1), new.labels.int().argmax(1)
    share = (digits[nearest] == asked[:, None]).float().mean().item()
    print(f"of the {NEAREST} nearest {share:.2f} are the same digit; by chance it is 0.10")


if __name__ == "__main__":
    main()
