"""Evaluation: metrics (pure functions on tensors), experiments on a model, and their reports.

Names are imported on first use, because the experiments load torch.

>>> from andornot.evaluate import knn_accuracy
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ..errors import EvaluationError

if TYPE_CHECKING:
    from .experiments.comparing import compare_runs
    from .experiments.config import RetrievalConfig
    from .experiments.degrees import evaluate_degrees
    from .experiments.leaderboard import evaluate_logic
    from .experiments.linear import LARS, LinearConfig, LinearResult, evaluate_knn, evaluate_linear, measure_linear
    from .experiments.multilabel import MultilabelConfig, MultilabelResult, evaluate_multilabel, measure_multilabel
    from .experiments.operability import measure_operability
    from .experiments.operators import (
        ARITHMETIC,
        CANDIDATES,
        CONDITIONS,
        OPERATORS,
        PAPER,
        Condition,
        Operands,
        Operator,
    )
    from .experiments.retrieval import choose_images, encode_task
    from .experiments.retrieval_report import evaluate_operability
    from .experiments.sets import gallery_and_queries, train_and_test
    from .experiments.words import evaluate_words
    from .metrics.intervals import Interval, MeanStd, bootstrap, bootstrap_ratio, paired_difference, wilson
    from .metrics.operability import closeness, summarize_runs
    from .metrics.ranking import (
        average_precision,
        best_features,
        knn_accuracy,
        mean_average_precision,
        occurrence_rates,
        precision_at,
        random_halves,
        separation,
    )
    from .report.outcome import Figure, Outcome, Section, Table
    from .report.writing import write_outcome

_LAZY: Final = {
    "experiments.comparing": ("compare_runs",),
    "experiments.config": ("RetrievalConfig",),
    "experiments.degrees": ("evaluate_degrees",),
    "experiments.linear": ("LARS", "LinearConfig", "LinearResult", "evaluate_knn", "evaluate_linear", "measure_linear"),
    "experiments.multilabel": (
        "MultilabelConfig",
        "MultilabelResult",
        "evaluate_multilabel",
        "measure_multilabel",
    ),
    "experiments.operability": ("measure_operability",),
    "experiments.operators": (
        "ARITHMETIC",
        "CANDIDATES",
        "CONDITIONS",
        "OPERATORS",
        "PAPER",
        "Condition",
        "Operands",
        "Operator",
    ),
    "experiments.retrieval": ("choose_images", "encode_task"),
    "experiments.retrieval_report": ("evaluate_operability",),
    "experiments.sets": ("gallery_and_queries", "train_and_test"),
    "experiments.leaderboard": ("evaluate_logic",),
    "experiments.words": ("evaluate_words",),
    "metrics.intervals": ("Interval", "MeanStd", "bootstrap", "bootstrap_ratio", "paired_difference", "wilson"),
    "metrics.operability": ("closeness", "summarize_runs"),
    "metrics.ranking": (
        "average_precision",
        "best_features",
        "knn_accuracy",
        "mean_average_precision",
        "occurrence_rates",
        "precision_at",
        "random_halves",
        "separation",
    ),
    "report.outcome": ("Figure", "Outcome", "Section", "Table"),
    "report.writing": ("write_outcome",),
}
_MODULE_OF: Final = {name: module for module, names in _LAZY.items() for name in names}

__all__ = [
    "ARITHMETIC",
    "CANDIDATES",
    "CONDITIONS",
    "LARS",
    "OPERATORS",
    "PAPER",
    "Condition",
    "EvaluationError",
    "Figure",
    "Interval",
    "LinearConfig",
    "LinearResult",
    "MeanStd",
    "MultilabelConfig",
    "MultilabelResult",
    "Operands",
    "Operator",
    "Outcome",
    "RetrievalConfig",
    "Section",
    "Table",
    "average_precision",
    "best_features",
    "bootstrap",
    "bootstrap_ratio",
    "choose_images",
    "closeness",
    "compare_runs",
    "encode_task",
    "evaluate_degrees",
    "evaluate_knn",
    "evaluate_linear",
    "evaluate_logic",
    "evaluate_multilabel",
    "evaluate_operability",
    "evaluate_words",
    "gallery_and_queries",
    "knn_accuracy",
    "mean_average_precision",
    "measure_linear",
    "measure_multilabel",
    "measure_operability",
    "occurrence_rates",
    "paired_difference",
    "precision_at",
    "random_halves",
    "separation",
    "summarize_runs",
    "train_and_test",
    "wilson",
    "write_outcome",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULE_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    """List the public names, for completion."""
    return sorted(__all__)
