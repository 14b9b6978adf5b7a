"""The experiments of Tables 1 and 2: classification, multilabel classification, and ablations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from ..data import ImageSet, source_of, train_split
from ..evaluate.experiments.linear import LinearConfig, measure_linear
from ..evaluate.experiments.multilabel import ActivationCache, MultilabelConfig, measure_multilabel
from ..evaluate.experiments.probing import PROBE_INPUTS, ProbeInput
from ..evaluate.experiments.sets import train_and_test
from ..evaluate.metrics.intervals import Interval, MeanStd, paired_difference
from ..evaluate.report.outcome import Cell, Outcome, Section, Table
from ..model import Model
from ..ssl.recipe import Recipe
from .paper import METHODS, PROPOSED, paper_result
from .plan import ExperimentPlan, Workspace

_PRETRAINED: Final = "efficientnet-lite0 from ImageNet"
_PROBE_INPUT_TEXTS: Final = {
    "backbone": "the pooled activations of the backbone, as in the paper",
    "degrees": "the possession degrees: the backbone is not trained here, so its activations are the same for all",
}
_TRUTH_VALUES: Final = "Truth values"
_VALUES: Final = (2, 4, 8, 16, 32)
_ALPHAS: Final = (0.25, 0.5, 0.75)
_BETAS: Final = (0.3, 0.6, 0.9)


def run_classification(plan: ExperimentPlan, workspace: Workspace) -> Outcome:
    """Reproduce Table 1: a linear layer on the frozen backbone of each method."""
    metrics, protocol = _accuracies(plan, workspace, plan.methods())
    table = _table(
        "Top-1 accuracy of a linear layer on the frozen backbone, mean ± standard deviation.", "method", plan, metrics
    )
    return Outcome(
        "Single-label classification (Table 1)",
        _best(metrics, "has the highest accuracy"),
        metrics,
        protocol,
        [Section("Accuracy", _runs(plan, metrics), [table]), *_comparison(metrics, "accuracy")],
        _verdict(metrics, "accuracy"),
    )


def run_ablation(plan: ExperimentPlan, workspace: Workspace) -> Outcome:
    """Reproduce the lower half of Table 1, N × M at constant N·M; then α and β."""
    groups: dict[str, dict[str, dict[str, Any]]] = {
        _TRUTH_VALUES: truth_value_shapes(plan),
        "Weight of the mixed images": {f"α = {alpha}": {"alpha": alpha} for alpha in _ALPHAS},
        "Weight of the expected value": {f"β = {beta}": {"beta": beta} for beta in _BETAS},
    }
    recipes = {name: plan.recipe(change) for changes in groups.values() for name, change in changes.items()}
    found, protocol = _accuracies(plan, workspace, recipes)
    metrics = {
        title: {name: found[name] for name in changes if name in found}
        for title, changes in groups.items()
        if changes.keys() & found.keys()
    }
    caption = "Top-1 accuracy of a linear layer, mean ± standard deviation."
    sections = [
        Section(title, _runs(plan, of_group), [_table(caption, "settings", plan, of_group)])
        for title, of_group in metrics.items()
    ]
    return Outcome("Ablation: N × M, α and β", _best_shape(plan, metrics), metrics, protocol, sections)


def run_multilabel_ablation(plan: ExperimentPlan, workspace: Workspace) -> Outcome:
    """Reproduce the lower half of Table 2: mean average precision for N × M at constant N·M."""
    recipes = {name: plan.recipe(change) for name, change in truth_value_shapes(plan).items()}
    plan.seeds.check(recipes)
    probe = _MultilabelProbe(plan, workspace)
    metrics, protocol = probe.measure(recipes)
    table = _table(probe.caption(protocol), "settings", plan, metrics)
    section = Section(_TRUTH_VALUES, f"{_runs(plan, metrics)} {probe.text}", [table])
    groups = {_TRUTH_VALUES: metrics}
    return Outcome("Multilabel ablation: N × M", _best_shape(plan, groups), groups, protocol, [section])


def run_multilabel(plan: ExperimentPlan, workspace: Workspace) -> Outcome:
    """Reproduce Table 2: mAP of one linear layer, for each method and for a backbone pretrained on ImageNet."""
    plan.seeds.check([*plan.methods(), _PRETRAINED])
    probe = _MultilabelProbe(plan, workspace)
    metrics, protocol = probe.measure(plan.methods())
    for probe_input in PROBE_INPUTS:
        found, of_pretrained = probe.measure({_PRETRAINED: plan.calibrated()}, probe_input)
        protocol = {**of_pretrained, **protocol}  # the only protocol if no method is selected
        metrics |= {f"{name}, {probe_input}": runs for name, runs in found.items()}
    of_methods = {name: found for name, found in metrics.items() if name in METHODS}
    return Outcome(
        "Multilabel classification (Table 2)",
        _best(of_methods or metrics, "has the highest mean average precision of the four methods"),
        metrics,
        protocol,
        [
            Section(
                "Mean average precision",
                f"{_runs(plan, metrics)} {probe.text}",
                [_table(probe.caption(protocol), "method", plan, metrics)],
            ),
            *_comparison(metrics, "mean average precision"),
        ],
        _verdict(metrics, "mean average precision"),
    )


class _MultilabelProbe:
    """Measure mean average precision with one linear layer.

    At paper scale, its input is the activations of each method's backbone. At small scale, all methods share a frozen
    backbone, so its input is the possession degrees.
    """

    def __init__(self, plan: ExperimentPlan, workspace: Workspace) -> None:
        self._plan, self._workspace = plan, workspace
        self._train, self._test = train_and_test(plan.data)
        self._images = self._train if plan.pretrain_data == plan.data else train_split(plan.pretrain_data).train
        self._cache = ActivationCache()  # models with the same backbone differ in their heads only
        self._probe_input: ProbeInput = "degrees" if plan.recipe({}).regime == "frozen" else "backbone"

    @property
    def text(self) -> str:
        """Return a description of the measurement, for a report."""
        return (
            f"The input of the linear layer is {_PROBE_INPUT_TEXTS[self._probe_input]}. It is trained on the split "
            f"“{self._train.split}” and tested on “{self._test.split}”."
        )

    @staticmethod
    def caption(protocol: Mapping[str, Any]) -> str:
        """Return the caption of a table."""
        return f"Mean average precision ({protocol['average_precision']}), mean ± standard deviation."

    def measure(
        self, recipes: Mapping[str, Recipe], probe_input: ProbeInput | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the metrics of each recipe, and the protocol."""
        small = self._plan.scale == "small"
        config = MultilabelConfig(
            cached=small, epochs=100 if small else 500, probe_input=probe_input or self._probe_input
        )

        def measure(model: Model, seed: int) -> dict[str, Any]:
            of_seed = config.changed(seed=seed)
            result = measure_multilabel(model, self._train, self._test, of_seed, cache=self._cache)
            return {
                "metric": result.mean,
                "converged": result.converged,
                "by_class": result.by_class,
                "protocol": result.protocol,
            }

        metrics, protocol = _measure_runs(
            self._plan, self._workspace, self._images, recipes, measure, f"multilabel-{config.probe_input}"
        )
        return metrics, {**protocol, "splits": {"training": self._train.split, "test": self._test.split}}


def _product(plan: ExperimentPlan) -> int:
    """Return N·M: the paper's for heads on a frozen backbone, less for small networks."""
    recipe = plan.recipe({})
    return recipe.num_features * recipe.num_values


def truth_value_shapes(plan: ExperimentPlan) -> dict[str, dict[str, int]]:
    """Return N × M at constant N·M, with at least one feature."""
    product = _product(plan)
    return {
        f"N = {product // m}, M = {m}": {"num_features": product // m, "num_values": m} for m in _VALUES if m <= product
    }


def _best_shape(plan: ExperimentPlan, metrics: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    of_group = metrics.get(_TRUTH_VALUES) or next(iter(metrics.values()))
    return _best(of_group, f"is best among the settings with N·M = {_product(plan):,}")


def _accuracies(
    plan: ExperimentPlan, workspace: Workspace, recipes: Mapping[str, Recipe]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    train, test = train_and_test(plan.data)
    images = train if plan.pretrain_data == plan.data else train_split(plan.pretrain_data).train
    plan.seeds.check(recipes)
    small = plan.scale == "small"

    def measure(model: Model, seed: int) -> dict[str, Any]:
        config = LinearConfig(seed=seed, cached=small, epochs=100 if small else 200)
        result = measure_linear(model, train, test, config)
        return {"metric": result.accuracy, "converged": result.converged, "protocol": result.protocol}

    return _measure_runs(plan, workspace, images, recipes, measure, "linear")


def _measure_runs(
    plan: ExperimentPlan,
    workspace: Workspace,
    images: ImageSet,
    recipes: Mapping[str, Recipe],
    measure: Callable[[Model, int], dict[str, Any]],
    what: str,
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Return the metric of a model for each recipe and seed, and the protocol, which is the same for all."""
    metrics: dict[str, dict[str, Any]] = {}
    protocol: dict[str, Any] = {}
    for name, recipe in plan.seeds.chosen(recipes).items():
        same = next((other for other in metrics if recipes[other] == recipe), None)
        if same is not None:  # each part of the ablation contains the default
            metrics[name] = metrics[same]
            continue
        measured = []
        for seed, run, model in workspace.runs(name, images, recipe, plan.seeds):
            depends = {"model": model.id, "data": plan.data, "scale": plan.scale, "seed": seed}
            found = workspace.step(f"{what}-{run}", depends, partial(measure, model, seed))
            protocol = {key: value for key, value in found["protocol"].items() if key not in ("model", "backbone")}
            measured.append(found)
        runs, converged = ([found[kind] for found in measured] for kind in ("metric", "converged"))
        metrics[name] = {
            "runs": runs,
            **asdict(MeanStd.of(runs)),
            "converged_runs": converged,
            "recipe": recipe.model_dump(mode="json"),
        }
    return metrics, protocol


def _table(caption: str, first: str, plan: ExperimentPlan, metrics: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    source = source_of(plan.data)
    for name, found in metrics.items():
        ours: list[Cell] = [
            MeanStd.of(runs) if len(runs) > 1 else runs[0] for runs in (found["runs"], found["converged_runs"])
        ]
        rows.append([name, *ours, paper_result(source, name)])
    columns = [first, "here", "here, converged probe", "in the paper"]
    if all(row[-1] is None for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return Table(caption, columns, rows, best=dict.fromkeys(columns[1:3], "high"))


def _best(metrics: Mapping[str, Mapping[str, Any]], what: str) -> str:
    name = max(metrics, key=lambda name: float(metrics[name]["mean"]))
    others = ", ".join(f"{found['mean']:.3f} for {other}" for other, found in metrics.items() if other != name)
    return f"“{name}” {what}: {metrics[name]['mean']:.3f} ({others})."


def _differences(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, Interval]]:
    """Return the number of runs and the paired difference to logic of each method with several runs."""
    if PROPOSED not in metrics:
        return {}
    # Runs with the same seed have the same initial layer and order of images.
    pairs = {name: list(zip(found["runs"], metrics[PROPOSED]["runs"], strict=False)) for name, found in metrics.items()}
    return {
        name: (len(runs), paired_difference(runs)) for name, runs in pairs.items() if name != PROPOSED and len(runs) > 1
    }


def _comparison(metrics: Mapping[str, Mapping[str, Any]], what: str) -> list[Section]:
    """Return the differences of all methods to logic; empty if there is nothing to compare."""
    rows: list[list[Cell]] = [
        [name, runs, difference, _compared(difference)] for name, (runs, difference) in _differences(metrics).items()
    ]
    if not rows:
        return []
    caption = f"Mean difference in {what} to {PROPOSED}, over runs with the same seed."
    text = "Below 0 the method is worse than logic. Intervals are of a paired t-test over seeds."
    return [Section(f"Compared with {PROPOSED}", text, [Table(caption, ["method", "runs", "difference", ""], rows)])]


def _verdict(metrics: Mapping[str, Mapping[str, Any]], what: str) -> str:
    """Return the comparison of the paper's methods as a sentence; empty if there is nothing to compare."""
    parts = [
        f"{name} is {_compared(difference)}"
        for name, (_, difference) in _differences(metrics).items()
        if name in METHODS
    ]
    return f"By {what}, {', '.join(parts)}." if parts else ""


def _compared(difference: Interval) -> str:
    if difference.low <= 0 <= difference.high:
        return "not distinguishable from logic"
    return "better than logic" if difference.value > 0 else "worse than logic"


def _runs(plan: ExperimentPlan, metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a sentence on the number of runs."""
    counts = {name: len(found["runs"]) for name, found in metrics.items()}
    most = max(counts.values())
    text = f"{most} runs with different seeds." if most > 1 else "One run."
    if fewer := [f"{name} {count}" for name, count in counts.items() if count < most]:
        text += f" Fewer of {', '.join(fewer)}."
    if plan.scale == "small":
        text += (
            " This is a small version of the experiment: another network, fewer epochs, inputs computed once without "
            "augmentation. Compare its metrics with each other, not with the paper's."
        )
    return text
