"""Causes and cures of dimensional collapse: effective rank, kNN, probe and operability of variants of the method.

    python benchmarks/study_collapse.py mnist:/data/mnist -o out/ --seeds 0 1 2 --variants paper decorrelate-1
    python benchmarks/study_collapse.py cifar10:/data/cifar10 -o cifar/ --recipe cifar --minutes 4 --variants paper
    python benchmarks/study_collapse.py mnist:/data/mnist -o out/ --table

Each run ends in one JSON file; a run that was started is not repeated (remove its file `.started`). All variants of a
seed see the same views in the same order. One thread. With `--minutes`, runs end after so many processor minutes
instead of their epochs. The recipe `cifar` has a ResNet-18 of a quarter of the width, with a stem of stride 2.
"""

import argparse
import copy
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from andornot import Model, open_images
from andornot.evaluate.experiments.config import RetrievalConfig
from andornot.evaluate.experiments.operability import measure_operability
from andornot.evaluate.experiments.operators import DEGREES, PAPER
from andornot.evaluate.experiments.retrieval import choose_images, encode_task
from andornot.evaluate.metrics.operability import Measurement
from andornot.logic import Representation
from andornot.model import new_network
from andornot.probes import knn_accuracy, linear_accuracy
from andornot.ssl import Network, SynthesisLoss, Views, mixup
from andornot.ssl.backbones.convnets import BasicBlock
from andornot.ssl.monitoring import effective_rank, measure_health
from andornot.ssl.network import Outputs
from andornot.ssl.recipe import Recipe, load_recipe
from andornot.ssl.runtime import without_denormals
from andornot.ssl.targets import Center, PriorCenter, Target

RECIPES: dict[str, dict[str, Any]] = {
    "mnist": {"recipe": "mnist", "epochs": 1},
    "short": {"recipe": "mnist", "epochs": 1, "precision": "bf16-mixed"},
    "cifar": {
        "recipe": "cifar10-paper", "backbone_options": {}, "epochs": 20, "batch_size": 64, "learning_rate": 0.1,
        "num_features": 128, "precision": "bf16-mixed",
    },
}  # fmt: skip


def quarter_resnet() -> nn.Module:
    """Return a ResNet-18 of a quarter of the width, with a stem of stride 2, for images of 32 pixels."""
    widths = (16, 16, 32, 64, 128)
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    for number, (before, after) in enumerate(pairwise(widths)):
        layers += [BasicBlock(before, after, 1 if number == 0 else 2), BasicBlock(after, after, 1)]
    return nn.Sequential(*layers)


def off_diagonal(first: Tensor, second: Tensor) -> Tensor:
    """Return the mean of the squared off-diagonal correlations of the columns of `(B, N)`."""
    standard = [(x - x.mean(0)) / (x.std(0, correction=0) + 1e-4) for x in (first, second)]
    correlations = standard[0].T @ standard[1] / len(first)
    squares = correlations.square()
    return (squares.sum() - squares.diagonal().sum()) / (squares.numel() - len(squares))


class SinkhornCenter(Center):
    """Targets whose truth values are equally frequent in a batch, by three Sinkhorn-Knopp iterations."""

    def forward(self, logits: Tensor) -> Target:
        """Return the targets of a batch."""
        logits = logits.detach().float()
        probs = torch.softmax(logits / self.temperature, -1)
        for _ in range(3):
            probs = probs / probs.sum(0, keepdim=True).clamp(min=1e-12)
            probs = probs / probs.sum(-1, keepdim=True)
        return Target(logits, Representation(probs, validate=False))

    def update(self, *targets: Target) -> None:
        """Leave the center at zero."""


class Step(NamedTuple):
    """What a penalty may use of a step."""

    first: Outputs
    second: Outputs
    recipe: Recipe


def degrees(logits: Tensor, temperature: float) -> Tensor:
    return Representation.from_logits(logits.float(), temperature, validate=False).degrees


def decorrelate(weight: float) -> Callable[[Step], Tensor]:
    def penalty(step: Step) -> Tensor:
        found = degrees(step.first.p, step.recipe.prediction_temperature)
        return weight * off_diagonal(found, found)

    return penalty


def decorrelate_z(weight: float) -> Callable[[Step], Tensor]:
    def penalty(step: Step) -> Tensor:
        found = degrees(step.first.z, step.recipe.target_temperature)
        return weight * off_diagonal(found, found)

    return penalty


def barlow(weight: float) -> Callable[[Step], Tensor]:
    def penalty(step: Step) -> Tensor:
        one, other = (degrees(o.p, step.recipe.prediction_temperature) for o in (step.first, step.second))
        return weight * off_diagonal(one, other)

    return penalty


def variance(weight: float) -> Callable[[Step], Tensor]:
    """Return VICReg's hinge on the standard deviation of degrees, and its covariance term, of degrees."""

    def penalty(step: Step) -> Tensor:
        x = degrees(step.first.p, step.recipe.prediction_temperature)
        x = x - x.mean(0)
        covariance = x.T @ x / (len(x) - 1)
        squares = covariance.square()
        hinge = (0.3 - (covariance.diagonal() + 1e-4).sqrt()).clamp(min=0).mean()
        return weight * (hinge + (squares.sum() - squares.diagonal().sum()) / len(squares))

    return penalty


def mean_entropy(weight: float) -> Callable[[Step], Tensor]:
    def penalty(step: Step) -> Tensor:
        probs = torch.softmax(step.first.p.float() / step.recipe.prediction_temperature, -1).mean(0)
        return weight * (probs * probs.clamp(min=1e-12).log()).sum(-1).mean()

    return penalty


class Variant(NamedTuple):
    """A change of the method."""

    settings: Mapping[str, Any] = MappingProxyType({})
    penalty: Callable[[Step], Tensor] | None = None
    last_norm: str = "simsiam"  # or "bias", "none"
    sinkhorn: bool = False
    ema: float | None = None


VARIANTS = {
    "untrained": Variant(),
    "paper": Variant(),
    **{f"decorrelate-{w:g}": Variant(penalty=decorrelate(w)) for w in (0.3, 1, 3, 5, 10)},
    **{f"decorrelate-z-{w:g}": Variant(penalty=decorrelate_z(w)) for w in (0.3, 1, 3, 10)},
    "barlow-1": Variant(penalty=barlow(1)),
    "barlow-3": Variant(penalty=barlow(3)),
    "variance-1": Variant(penalty=variance(1)),
    "entropy-1": Variant(penalty=mean_entropy(1)),
    "bias": Variant(last_norm="bias"),
    "no-norm": Variant(last_norm="none"),
    "sinkhorn": Variant(sinkhorn=True),
    "ema": Variant(ema=0.99),
    "ema-decorrelate-1": Variant(ema=0.99, penalty=decorrelate(1)),
    "prior": Variant({"prior": 0.3}),
    "prior-decorrelate-1": Variant({"prior": 0.3}, penalty=decorrelate(1)),
    "beta-1": Variant({"beta": 1.0}),
    "beta-1-decorrelate-1": Variant({"beta": 1.0}, penalty=decorrelate(1)),
    "prior-beta-1-decorrelate-1": Variant({"prior": 0.3, "beta": 1.0}, penalty=decorrelate(1)),
    "target-temperature-0.1": Variant({"target_temperature": 0.1}),
    **{
        f"{method}-beta-{beta:g}": Variant({"synthesis": method, "beta": beta})
        for method in ("vanilla", "mean", "maximum", "logic")
        for beta in (0, 0.6)
    },
}


def train(network: Network, variant: Variant, recipe: Recipe, images: Any, minutes: float | None) -> int:
    """Train as `pretrain` does; return the number of steps."""
    if variant.last_norm == "none":
        del network.projector[-1]
    elif variant.last_norm == "bias":
        norm = nn.BatchNorm1d(network.num_features * network.num_values)
        norm.weight.requires_grad_(False)
        network.projector[-1] = norm
    arguments = recipe.target_temperature, recipe.center_momentum
    center = PriorCenter(*arguments, recipe.prior) if recipe.prior is not None else Center(*arguments)
    center = SinkhornCenter(*arguments) if variant.sinkhorn else center
    loss = SynthesisLoss(recipe.synthesis, center=center, beta=recipe.beta)
    teacher = copy.deepcopy(network).requires_grad_(False) if variant.ema else None
    optimiser = torch.optim.SGD(
        [p for p in network.parameters() if p.requires_grad],
        recipe.peak_learning_rate,
        recipe.momentum,
        weight_decay=recipe.weight_decay,
    )
    views = Views(recipe.view_settings(recipe.size or network.backbone.size))
    generator = torch.Generator().manual_seed(recipe.seed)
    per_epoch = len(images) // recipe.batch_size
    total = per_epoch * recipe.epochs
    network.train()
    done, begun = 0, time.process_time()
    part = 0.0
    with without_denormals():
        while part < 1:
            for batch in torch.split(torch.randperm(len(images), generator=generator), recipe.batch_size)[:per_epoch]:
                for group in optimiser.param_groups:
                    group["lr"] = recipe.peak_learning_rate * (1 + math.cos(math.pi * part)) / 2
                pixels = images[batch]
                first, second = views(pixels, generator), views(pixels, generator)
                with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bf16-mixed"):
                    out = [network(first), network(second)]
                    if teacher is not None:
                        with torch.no_grad():
                            out = [o._replace(z=teacher(x).z) for o, x in zip(out, (first, second), strict=True)]
                    mix = mixup(first, first.roll(1, 0), recipe.mixup_lambda)
                    mixed = None if loss.synthesis is None else network(mix)
                result = loss(out[0], out[1], mixed)
                objective = result.total
                if variant.penalty is not None:
                    objective = objective + variant.penalty(Step(out[0], out[1], recipe))
                optimiser.zero_grad()
                torch.autograd.backward(objective)
                optimiser.step()
                if teacher is not None and variant.ema is not None:
                    with torch.no_grad():
                        for mine, theirs in zip(teacher.parameters(), network.parameters(), strict=True):
                            mine.lerp_(theirs, 1 - variant.ema)
                done += 1
                spent = (time.process_time() - begun) / 60
                part = done / total if minutes is None else spent / minutes
                if done % 200 == 0:
                    print(f"  {done} steps, {spent:.1f} minutes, loss {objective.item():.3f}", flush=True)
                if part >= 1:
                    break
    return done


def measure(model: Model, train_set: Any, test_set: Any, retrieval: bool, entropies: bool) -> dict[str, Any]:
    """Return all figures of a model."""
    sets = [s.resized(model.size, model.recipe.fit, progress=False) for s in (train_set, test_set)]
    acts = [model.activations(s, progress=False) for s in sets]
    degs = [model.encode_activations(a).degrees for a in acts]
    y, test_y = (s.targets for s in sets)
    health = measure_health(model.encode_activations(acts[1][:5000]))
    figures: dict[str, Any] = {
        "rank_degrees": health.effective_rank,
        "rank_activations": effective_rank(acts[1][:5000]),
        "spread": health.spread,
        "usage": health.usage,
        "knn_degrees": knn_accuracy(degs[0], y, degs[1], test_y),
        "knn_activations": knn_accuracy(acts[0], y, acts[1], test_y),
        "probe_activations": linear_accuracy(acts[0], y, acts[1], test_y),
        "probe_degrees": linear_accuracy(degs[0], y, degs[1], test_y),
    }
    if retrieval:
        config = RetrievalConfig(images_per_class=10, top=50)
        task = choose_images(train_set, test_set, config)
        # Both readings of the cross-entropy take sixteen times as long as degrees.
        operators = PAPER if entropies else [replace(operator, distances=DEGREES) for operator in PAPER]
        figures["retrieval"] = measure_operability(
            encode_task(model, task, progress=False), top=50, operators=operators, progress=False
        ).to_data()
    return figures


def table(folder: Path) -> None:
    """Print mean ± standard deviation over seeds of all finished runs."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        if "retrieval" in found:
            measured = Measurement.from_data(found.pop("retrieval"))
            for way, rates in measured.rates.items():
                found[" ".join(filter(None, way))] = float(rates.values[..., 0].mean())
        runs.setdefault(path.stem.rpartition("-")[0], []).append(found)
    for name, of_variant in runs.items():
        print(f"{name} ({len(of_variant)})")
        for key in of_variant[0]:
            values = [run[key] for run in of_variant if isinstance(run.get(key), float | int)]
            if values:
                print(f"    {key:44} {sum(values) / len(values):8.3f}   {' '.join(f'{v:.3f}' for v in values)}")


def main() -> None:
    """Do the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--variants", nargs="*", choices=VARIANTS, default=[])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--recipe", choices=RECIPES, default="mnist")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--images", type=int, help="train on so many images")
    parser.add_argument("--minutes", type=float, help="of processor time for each run")
    parser.add_argument("--weights", type=Path, help="measure the networks of a folder of finished runs instead")
    parser.add_argument("--retrieve", nargs="*", choices=VARIANTS, default=[], help="variants to measure retrieval of")
    parser.add_argument(
        "--measured", type=int, default=12_000, help="about so many training and test images are measured"
    )
    parser.add_argument("--entropies", action="store_true", help="retrieve by both readings of the cross-entropy, too")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    if options.table:
        return table(options.output)
    train_set, test_set = (open_images(options.data, split=split) for split in ("train", "test"))
    seen = train_set.subset(range(options.images)) if options.images else train_set
    train_set, test_set = (
        images.subset(range(0, len(images), max(1, len(images) // options.measured)))
        for images in (train_set, test_set)
    )
    for seed in options.seeds:
        for name in options.variants:
            path = options.output / f"{name}-{seed}.json"
            try:  # several processes may share the folder
                path.with_suffix(".started").touch(exist_ok=False)
            except FileExistsError:
                continue
            print(name, seed, time.strftime("%H:%M:%S"), flush=True)
            variant = VARIANTS[name]
            settings = dict(RECIPES[options.recipe])
            recipe = load_recipe(settings.pop("recipe"), **{**settings, "seed": seed, **variant.settings})
            torch.manual_seed(seed)
            own = quarter_resnet() if options.recipe == "cifar" else None
            network = new_network(recipe, seen.channels, own)
            resized = seen.resized(recipe.size or network.backbone.size, progress=False)
            begun = time.process_time()
            steps = 0
            if options.weights:
                network.load_state_dict(torch.load(options.weights / f"{name}-{seed}.pt", weights_only=True))
            elif name != "untrained":
                steps = train(network, variant, recipe, resized, options.minutes)
            spent = time.process_time() - begun
            network.eval()
            if name == "untrained" and not options.weights:  # statistics of batch norms
                network.train()
                with torch.no_grad():
                    for batch in torch.split(torch.arange(len(resized)), recipe.batch_size)[:100]:
                        network(resized[batch] / 255)
                network.eval()
            torch.save(network.state_dict(), path.with_suffix(".pt"))
            model = Model.from_network(network, recipe)
            figures = measure(model, train_set, test_set, name in options.retrieve, options.entropies)
            path.write_text(json.dumps({"steps": steps, "seconds": spent, **figures}))
            print(
                "  " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items() if isinstance(v, float)),
                f"({time.process_time() - begun - spent:.0f} s to measure)",
                flush=True,
            )
    return None


if __name__ == "__main__":
    main()
