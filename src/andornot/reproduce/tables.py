"""The experiments that end in a table of accuracies: classification, multilabel classification, ablation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final

from ..data import ImageSet, source_of, training_part
from ..evaluate.experiments.linear import LinearSettings, linear_evaluation
from ..evaluate.experiments.multilabel import MultilabelSettings, Shared, multilabel_evaluation
from ..evaluate.experiments.probing import READS, Reads
from ..evaluate.experiments.sets import train_and_test
from ..evaluate.metrics.intervals import Interval, Spread, paired_difference
from ..evaluate.report.outcome import Cell, Outcome, Section, Table
from ..model import Model
from ..ssl.recipe import Recipe
from .paper import METHODS, PAPERS, paper_figure
from .plan import Plan
from .workspace import Workspace

_PRETRAINED: Final = "efficientnet-lite0 from ImageNet"
_READS: Final = {
    "backbone": "the pooled features of the backbone, as in the paper",
    "degrees": "the possession degrees: the backbone is not trained here, so its features are the same for all methods",
}
_TRUTH_VALUES: Final = "Truth values"
_VALUES: Final = (2, 4, 8, 16, 32)
_ALPHAS: Final = (0.25, 0.5, 0.75)
_BETAS: Final = (0.3, 0.6, 0.9)


def classification(plan: Plan, workspace: Workspace) -> Outcome:
    """Table 1: a linear layer on the frozen backbone of each method."""
    figures, protocol = _accuracies(plan, workspace, plan.methods())
    table = _table(
        "Top-1 accuracy of a linear layer on the frozen backbone, mean ± standard deviation.", "method", plan, figures
    )
    return Outcome(
        "Single-label classification (Table 1)",
        _best(figures, "has the highest accuracy"),
        figures,
        protocol,
        [Section("Accuracy", _runs(plan, figures), [table]), *_comparison(figures, "accuracy")],
        _told_apart(figures, "accuracy"),
    )


def ablation(plan: Plan, workspace: Workspace) -> Outcome:
    """The paper's lower half of Table 1, N × M at constant N·M; then α and β."""
    groups: dict[str, dict[str, dict[str, Any]]] = {
        _TRUTH_VALUES: _shapes(plan),
        "Weight of the mixed pictures": {f"α = {alpha}": {"alpha": alpha} for alpha in _ALPHAS},
        "Weight of the expected value": {f"β = {beta}": {"beta": beta} for beta in _BETAS},
    }
    recipes = {name: plan.recipe(change) for changes in groups.values() for name, change in changes.items()}
    found, protocol = _accuracies(plan, workspace, recipes)
    figures = {
        title: {name: found[name] for name in changes if name in found}
        for title, changes in groups.items()
        if changes.keys() & found.keys()
    }
    caption = "Top-1 accuracy of a linear layer, mean ± standard deviation."
    sections = [
        Section(title, _runs(plan, of_group), [_table(caption, "settings", plan, of_group)])
        for title, of_group in figures.items()
    ]
    return Outcome("Ablation: N × M, α and β", _best_shape(plan, figures), figures, protocol, sections)


def multilabel_ablation(plan: Plan, workspace: Workspace) -> Outcome:
    """The paper's lower half of Table 2: mean average precision for N × M at constant N·M."""
    recipes = {name: plan.recipe(change) for name, change in _shapes(plan).items()}
    plan.seeds.check(recipes)
    measured = _Precisions(plan, workspace)
    figures, protocol = measured.of(recipes)
    table = _table(measured.caption(protocol), "settings", plan, figures)
    section = Section(_TRUTH_VALUES, f"{_runs(plan, figures)} {measured.text}", [table])
    groups = {_TRUTH_VALUES: figures}
    return Outcome("Multilabel ablation: N × M", _best_shape(plan, groups), groups, protocol, [section])


def multilabel(plan: Plan, workspace: Workspace) -> Outcome:
    """Table 2: mean average precision of one linear layer, for each method and for a backbone from ImageNet."""
    plan.seeds.check([*plan.methods(), _PRETRAINED])
    measured = _Precisions(plan, workspace)
    figures, protocol = measured.of(plan.methods())
    for reads in READS:
        found, of_pretrained = measured.of({_PRETRAINED: plan.calibrated()}, reads)
        protocol = {**of_pretrained, **protocol}  # where no method is asked for, it has its own
        figures |= {f"{name}, {reads}": of_both for name, of_both in found.items()}
    of_methods = {name: found for name, found in figures.items() if name in METHODS}
    return Outcome(
        "Multilabel classification (Table 2)",
        _best(of_methods or figures, "has the highest mean average precision of the four methods"),
        figures,
        protocol,
        [
            Section(
                "Mean average precision",
                f"{_runs(plan, figures)} {measured.text}",
                [_table(measured.caption(protocol), "method", plan, figures)],
            ),
            *_comparison(figures, "mean average precision"),
        ],
        _told_apart(figures, "mean average precision"),
    )


class _Precisions:
    """Measures mean average precision by one linear layer.

    At paper scale it reads the backbone of each method. At small scale all methods share a backbone that is not
    trained, so it reads the possession degrees.
    """

    def __init__(self, plan: Plan, workspace: Workspace) -> None:
        self._plan, self._workspace = plan, workspace
        self._train, self._test = train_and_test(plan.data)
        self._images = self._train if plan.pretrain_data == plan.data else training_part(plan.pretrain_data).train
        self._shared = Shared()  # heads on one backbone differ in what they make of its features only
        self._reads: Reads = "degrees" if plan.recipe({}).regime == "frozen" else "backbone"

    @property
    def text(self) -> str:
        """What is measured, for a report."""
        return (
            f"The linear layer reads {_READS[self._reads]}. It is trained on the split “{self._train.split}”, and "
            f"measured on “{self._test.split}”."
        )

    @staticmethod
    def caption(protocol: Mapping[str, Any]) -> str:
        """Of a table."""
        return f"Mean average precision ({protocol['average_precision']}), mean ± standard deviation."

    def of(self, recipes: Mapping[str, Recipe], reads: Reads | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The figures of a model for each recipe, and the protocol."""
        small = self._plan.scale == "small"
        settings = MultilabelSettings(cached=small, epochs=100 if small else 500, reads=reads or self._reads)

        def measure(model: Model, seed: int) -> dict[str, Any]:
            now = settings.changed(seed=seed)
            result = multilabel_evaluation(model, self._train, self._test, now, shared=self._shared)
            return {"figure": result.mean, "by_class": result.by_class, "protocol": result.protocol}

        figures, protocol = _measured(
            self._plan, self._workspace, self._images, recipes, measure, f"multilabel-{settings.reads}"
        )
        return figures, {**protocol, "splits": {"training": self._train.split, "test": self._test.split}}


def _product(plan: Plan) -> int:
    """N·M of the recipe: heads on a frozen backbone have the paper's, which small networks have not."""
    recipe = plan.recipe({})
    return recipe.num_features * recipe.num_values


def _shapes(plan: Plan) -> dict[str, dict[str, int]]:
    """N × M at constant N·M; as long as there is a feature."""
    product = _product(plan)
    return {
        f"N = {product // m}, M = {m}": {"num_features": product // m, "num_values": m} for m in _VALUES if m <= product
    }


def _best_shape(plan: Plan, figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    of_group = figures.get(_TRUTH_VALUES) or next(iter(figures.values()))
    return _best(of_group, f"is best among the settings with N·M = {_product(plan):,}")


def _accuracies(
    plan: Plan, workspace: Workspace, recipes: Mapping[str, Recipe]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    train, test = train_and_test(plan.data)
    images = train if plan.pretrain_data == plan.data else training_part(plan.pretrain_data).train
    plan.seeds.check(recipes)
    small = plan.scale == "small"

    def measure(model: Model, seed: int) -> dict[str, Any]:
        settings = LinearSettings(seed=seed, cached=small, epochs=100 if small else 200)
        result = linear_evaluation(model, train, test, settings)
        return {"figure": result.accuracy, "best_epoch": result.best_epoch, "protocol": result.protocol}

    return _measured(plan, workspace, images, recipes, measure, "linear")


def _measured(
    plan: Plan,
    workspace: Workspace,
    images: ImageSet,
    recipes: Mapping[str, Recipe],
    measure: Callable[[Model, int], dict[str, Any]],
    what: str,
) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """A model for each recipe and seed, and its figure; the protocol is the same for all."""
    figures: dict[str, dict[str, Any]] = {}
    protocol: dict[str, Any] = {}
    for name, recipe in plan.seeds.chosen(recipes).items():
        same = next((other for other in figures if recipes[other] == recipe), None)
        if same is not None:  # as the middle setting of each part of the ablation
            figures[name] = figures[same]
            continue
        runs = []
        for seed, run, model in workspace.runs(name, images, recipe, plan.seeds):
            depends = {"model": model.id, "data": plan.data, "scale": plan.scale, "seed": seed}
            found = workspace.step(f"{what}-{run}", depends, partial(measure, model, seed))
            protocol = {key: value for key, value in found["protocol"].items() if key not in ("model", "backbone")}
            runs.append(found["figure"])
        figures[name] = {
            "runs": runs,
            **asdict(Spread.of(runs)),
            "recipe": recipe.model_dump(mode="json"),
        }
    return figures, protocol


def _table(caption: str, first: str, plan: Plan, figures: Mapping[str, Mapping[str, Any]]) -> Table:
    rows = []
    source = source_of(plan.data)
    for name, found in figures.items():
        ours = Spread(found["mean"], found["deviation"]) if len(found["runs"]) > 1 else found["mean"]
        rows.append([name, ours, paper_figure(source, name)])
    columns = [first, "here", "in the paper"]
    if all(row[2] is None for row in rows):
        columns, rows = columns[:2], [row[:2] for row in rows]
    return Table(caption, columns, rows, best={"here": "high"})


def _best(figures: Mapping[str, Mapping[str, Any]], what: str) -> str:
    name = max(figures, key=lambda name: float(figures[name]["mean"]))
    others = ", ".join(f"{found['mean']:.3f} for {other}" for other, found in figures.items() if other != name)
    return f"“{name}” {what}: {figures[name]['mean']:.3f} ({others})."


def _differences(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[int, Interval]]:
    """Of each method that has several runs to compare: how many, and its difference to logic, run by run."""
    if PAPERS not in figures:
        return {}
    # The same seed has the same start of the linear layer, and the same order of pictures.
    pairs = {name: list(zip(found["runs"], figures[PAPERS]["runs"], strict=False)) for name, found in figures.items()}
    return {
        name: (len(runs), paired_difference(runs)) for name, runs in pairs.items() if name != PAPERS and len(runs) > 1
    }


def _comparison(figures: Mapping[str, Mapping[str, Any]], what: str) -> list[Section]:
    """The differences of all methods to logic; empty where there is nothing to compare."""
    rows: list[list[Cell]] = [
        [name, runs, difference, _compared(difference)] for name, (runs, difference) in _differences(figures).items()
    ]
    if not rows:
        return []
    caption = f"Mean difference in {what} to {PAPERS}, over runs with the same seed."
    text = "Below 0 the method is worse than logic. Intervals are of a paired t-test, over seeds."
    return [Section(f"Compared with {PAPERS}", text, [Table(caption, ["method", "runs", "difference", ""], rows)])]


def _told_apart(figures: Mapping[str, Mapping[str, Any]], what: str) -> str:
    """The same in one sentence, of the paper's methods; empty where there is nothing to compare."""
    told = [
        f"{name} is {_compared(difference)}"
        for name, (_, difference) in _differences(figures).items()
        if name in METHODS
    ]
    return f"By {what}, {', '.join(told)}." if told else ""


def _compared(difference: Interval) -> str:
    if difference.low <= 0 <= difference.high:
        return "not told apart from logic"
    return "better than logic" if difference.value > 0 else "worse than logic"


def _runs(plan: Plan, figures: Mapping[str, Mapping[str, Any]]) -> str:
    """How often each was measured."""
    counts = {name: len(found["runs"]) for name, found in figures.items()}
    most = max(counts.values())
    text = f"{most} runs with different seeds." if most > 1 else "One run."
    if fewer := [f"{name} {count}" for name, count in counts.items() if count < most]:
        text += f" Fewer of {', '.join(fewer)}."
    if plan.scale == "small":
        text += (
            " This is a small version of the experiment: another network, fewer epochs, features computed once without "
            "augmentation. Its figures can be compared with each other, not with the paper's."
        )
    return text
