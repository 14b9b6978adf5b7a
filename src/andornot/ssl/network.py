"""The network of the paper, backbone → projector → z̃ → predictor → p̃, and one training step on it."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..logic import Representation
from .backbones import Backbone
from .heads import Predictor, Projector
from .losses import Losses, Pair, proposed_loss
from .synthesis import Synthesis, default_beta, get_synthesis, mix_pictures
from .targets import Centre, Target


class Outputs(NamedTuple):
    """Pooled activations `(B, width)`, and the logits z̃ and p̃, `(B, N, M)` each."""

    activations: Tensor
    z: Tensor
    p: Tensor


class Network(nn.Module):
    """f_θ = projector ∘ backbone and g_φ = predictor ∘ f_θ, Eqs. (z_1), (p_1)."""

    def __init__(
        self,
        backbone: Backbone,
        num_features: int,
        num_values: int,
        projector_hidden: int | None = None,
        predictor_hidden: int = 512,
    ) -> None:
        super().__init__()
        self.num_features, self.num_values = num_features, num_values
        self.backbone = backbone
        self.projector = Projector(backbone.width, projector_hidden, num_features * num_values)
        self.predictor = Predictor(num_features * num_values, predictor_hidden)

    def forward(self, pictures: Tensor) -> Outputs:
        """Pictures `(B, C, H, W)` from 0 to 1."""
        return self.project(self.backbone(pictures))

    def project(self, activations: Tensor) -> Outputs:
        """Only the heads, on pooled activations `(B, width)`."""
        z = self.projector(activations)
        shape = (-1, self.num_features, self.num_values)
        return Outputs(activations, z.view(shape), self.predictor(z).view(shape))


class StepResult(NamedTuple):
    """The losses of a step and the targets of its two views."""

    losses: Losses
    targets: tuple[Target, Target]


class Objective(nn.Module):
    """One training step: three views through the network, their targets, their losses.

    `synthesis` is one of `SYNTHESES` by name, or a function of your own like them: from the targets of two pictures,
    λ_mix and the centre to the target of the mixed picture.
    """

    def __init__(
        self,
        network: Network,
        centre: Centre,
        synthesis: str | Synthesis = "logic",
        *,
        temperature: float = 0.1,
        mixing: float = 0.5,
        alpha: float = 0.5,
        beta: float | None = None,
    ) -> None:
        super().__init__()
        self.network, self.centre = network, centre
        self.synthesis = get_synthesis(synthesis)
        self.temperature, self.mixing, self.alpha = temperature, mixing, alpha
        self.beta = default_beta(synthesis) if beta is None else beta

    def forward(self, first: Tensor, second: Tensor, partners: Tensor | None = None) -> StepResult:
        """Two views `(B, C, H, W)` of B pictures; each first view is mixed with that of its partner.

        `partners` `(B,)` are numbers in the batch; by default the neighbour: batches are shuffled.
        """
        one, other = self.network(first), self.network(second)
        if self.synthesis is None:
            return self.compare(one, other)
        partners = torch.arange(len(first), device=first.device).roll(1) if partners is None else partners
        mixed = self.network(mix_pictures(first, first[partners], self.mixing))
        return self.compare(one, other, mixed, one.z[partners])

    def compare(
        self, first: Outputs, second: Outputs, mixed: Outputs | None = None, partner_z: Tensor | None = None
    ) -> StepResult:
        """The losses of outputs that are there already.

        `mixed` are those of the first views mixed with their partners' views, whose logits z̃ are `partner_z`.
        The centre is to be updated with the targets after the backward pass.
        """
        targets = self.centre(first.z), self.centre(second.z)
        pairs = self._pair(first, targets[1].representation), self._pair(second, targets[0].representation)
        mixed_pair = None
        if self.synthesis is not None and mixed is not None and partner_z is not None:
            synthesised = self.synthesis(targets[0], self.centre(partner_z), self.mixing, self.centre)
            mixed_pair = self._pair(mixed, synthesised)
        return StepResult(proposed_loss(*pairs, mixed_pair, self.alpha, self.beta), targets)

    def _pair(self, outputs: Outputs, target: Representation) -> Pair:
        return Pair(Representation.from_logits(outputs.p.float(), self.temperature, validate=False), target)
