"""One step of the method by hand: the loss of two views of a batch of images."""

from torch import Tensor, nn

from andornot.ssl.losses import SynthesisLoss, SynthesisOutput, mixup


def loss_of_views(
    network: nn.Module, loss: SynthesisLoss, first: Tensor, second: Tensor, partners: Tensor | None = None
) -> SynthesisOutput:
    """Return the loss, with each first view mixed with that of its partner, by default the image before."""
    one, other = network(first), network(second)
    if loss.synthesis is None:
        return loss(one, other)
    if partners is None:
        return loss(one, other, network(mixup(first, first.roll(1, 0), loss.mixup_lambda)))
    return loss(one, other, network(mixup(first, first[partners], loss.mixup_lambda)), one.z[partners])
