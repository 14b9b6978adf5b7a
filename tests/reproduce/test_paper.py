"""What the paper says, judged by hand-made metrics."""

import pytest

from andornot.reproduce import EXPERIMENTS
from andornot.reproduce.paper import judge


def table(**runs: list[float]) -> dict[str, dict[str, list[float]]]:
    return {name: {"runs": values} for name, values in runs.items()}


def verdicts(experiment: str, metrics: dict) -> dict[str, str]:
    """By the first words of each claim."""
    return {" ".join(claim.text.split()[:3]): claim.verdict for claim in judge(experiment, metrics)}


LOGIC = [0.900, 0.905, 0.903, 0.902, 0.901]


@pytest.mark.parametrize(
    ("maximum", "verdict"),
    [
        ([0.901, 0.904, 0.903, 0.903, 0.900], "holds"),
        ([0.930, 0.936, 0.934, 0.932, 0.931], "does not hold"),
        ([0.880, 0.950, 0.900, 0.930, 0.870], "cannot be judged"),
        ([0.901], "cannot be judged"),
    ],
)
@pytest.mark.parametrize("experiment", ["classification", "multilabel"])
def test_logic_is_competitive_if_no_other_synthesis_is_better_by_a_point(experiment, maximum, verdict):
    metrics = table(vanilla=LOGIC, mean=LOGIC, maximum=maximum, logic=LOGIC)
    assert verdicts(experiment, metrics)["Logic is competitive"] == verdict


@pytest.mark.parametrize(
    ("vanilla", "verdict"),
    [
        ([value - 0.02 - 0.001 * place for place, value in enumerate(LOGIC)], "holds"),
        ([value + 0.02 + 0.001 * place for place, value in enumerate(LOGIC)], "does not hold"),
        ([0.89, 0.92, 0.90, 0.91, 0.89], "cannot be judged"),
    ],
)
def test_synthesis_helps_if_the_interval_says_so(vanilla, verdict):
    metrics = table(vanilla=vanilla, mean=LOGIC, maximum=LOGIC, logic=LOGIC)
    assert verdicts("classification", metrics)["Logic is better"] == verdict


@pytest.mark.parametrize("experiment", ["multilabel", "multilabel-ablation"])
def test_heads_on_a_frozen_backbone_do_not_judge_table_2(experiment):
    """They are no networks that a method trained; the metrics are told all the same."""
    worse = [value - 0.02 - 0.001 * place for place, value in enumerate(LOGIC)]
    shapes = {"N = 16, M = 2": {"runs": worse}, "N = 4, M = 8": {"runs": LOGIC}}
    metrics = {**table(vanilla=worse, mean=worse, maximum=worse, logic=LOGIC), "Truth values": shapes}
    plain, of_heads = judge(experiment, metrics), judge(experiment, metrics, "degrees")
    assert {claim.verdict for claim in plain} == {"holds"}
    assert {claim.verdict for claim in of_heads} == {"cannot be judged"}
    assert [claim.evidence for claim in of_heads] == [claim.evidence for claim in plain]
    assert all("heads" in claim.rule for claim in of_heads)


def test_a_method_that_was_left_out_is_not_judged():
    assert set(verdicts("classification", table(logic=LOGIC)).values()) == {"cannot be judged"}


def test_truth_values_are_judged_by_all_other_settings():
    worse = [value - 0.03 - 0.001 * place for place, value in enumerate(LOGIC)]
    shapes = {"N = 16, M = 2": worse, "N = 4, M = 8": LOGIC, "N = 1, M = 32": worse}
    metrics = {"Truth values": {name: {"runs": runs} for name, runs in shapes.items()}}
    assert verdicts("ablation", metrics) == {"Many truth values": "holds", "M = 8": "holds"}
    metrics["Truth values"]["N = 1, M = 32"] = {"runs": [2 * value for value in LOGIC]}
    assert verdicts("multilabel-ablation", metrics) == {"Many truth values": "holds", "M = 8": "does not hold"}


def interval(value: float, reach: float = 0.02) -> dict[str, float]:
    return {"value": value, "low": value - reach, "high": value + reach}


def degrees(areas: list[float], share: float = 0.5) -> dict:
    classes = {str(number): {"area_held_out": area} for number, area in enumerate(areas)}
    return {"classes": {"classes": classes}, "crops": {"all": {"higher_in_own_crop": interval(share)}}}


@pytest.mark.parametrize(
    ("areas", "share", "expected"),
    [
        ([0.8, 0.85, 0.9], 0.7, ["holds", "holds"]),
        ([0.5, 0.55, 0.6], 0.3, ["does not hold", "does not hold"]),
        ([0.5, 0.75, 0.9], 0.49, ["cannot be judged", "cannot be judged"]),
    ],
)
def test_degrees_are_judged_against_untrained_ones_and_crops_against_chance(areas, share, expected):
    metrics = {"logic": degrees(areas, share), "untrained": degrees([0.7, 0.71, 0.72])}
    assert list(verdicts("degrees", metrics).values()) == expected
    assert verdicts("degrees", {"logic": degrees(areas)})["Possession degrees stand"] == "cannot be judged"
    nothing = {"logic": {"classes": None, "crops": None}}
    assert set(verdicts("degrees", nothing).values()) == {"cannot be judged"}


def test_the_evidence_says_that_a_backbone_was_trained_with_labels():
    for experiment, metrics in (("degrees", {"logic": degrees([0.8])}), ("voc-retrieval", {"logic": rows()})):
        plain, of_heads = judge(experiment, metrics), judge(experiment, metrics, labelled_backbone=True)
        assert [claim.verdict for claim in plain] == [claim.verdict for claim in of_heads]
        assert all("trained with labels" in claim.evidence for claim in of_heads)
        assert not any("trained with labels" in claim.evidence for claim in plain)


def row(query: str, shift: float, *, difference: float = 0.1, relative: float | None = 0.1) -> dict:
    return {
        "query": query,
        "operator": "Gödel",
        "distance": "cross-entropy",
        "a": interval(0.6 + shift),
        "reference": 0.6,
        "chance": 0.1,
        "shift": interval(shift, 0.01),
        "difference": interval(difference),
        "relative": None if relative is None else interval(relative),
        "by_pair": [difference, difference + 0.01, difference + 0.02],
        "pairs": [[0, 1], [0, 2], [1, 2]],
    }


def rows(either: float = 0.05, common: float = -0.05, without: float = -0.4, **changes: object) -> list[dict]:
    return [
        row("a|b", either, **changes),
        row("ab&a", common, **changes),
        row("ab&~b", without, difference=0.4),
        row("ab&~b|a", without / 2, difference=0.2),
    ]


@pytest.mark.parametrize("where", ["mnist-retrieval", "voc-retrieval", "scenes-retrieval"])
def test_the_papers_figure_holds_where_rates_are_close_and_not_alone_is_not(where):
    """Close is within 0.1 here: a fifth of 0.6 - 0.1."""
    found = verdicts(where, {"logic": rows()})
    assert [found[key] for key in ("OR works: a|b", "AND works: ab&a", "NOT alone falls")] == ["holds"] * 3
    assert found["The relative negation"] == "holds"
    found = verdicts(where, {"logic": rows(either=0.2, common=-0.2, without=0.0)})
    assert [found[key] for key in ("OR works: a|b", "AND works: ab&a", "NOT alone falls")] == ["does not hold"] * 3
    found = verdicts(where, {"logic": rows(either=0.1, common=-0.1)})
    assert [found[key] for key in ("OR works: a|b", "AND works: ab&a")] == ["cannot be judged"] * 2, (
        "the edge is inside"
    )


def test_without_a_reference_above_chance_nothing_is_close():
    found = verdicts("mnist-retrieval", {"logic": rows(either=0.0, common=0.0, relative=None)})
    assert found["OR works: a|b"] == found["AND works: ab&a"] == "cannot be judged"


def test_methods_are_compared_in_retrieval_as_a_claim_of_our_own():
    metrics = {"logic": rows(), "mean": rows(difference=0.3), "maximum": rows(difference=0.2)}
    found = [claim for claim in judge("mnist-retrieval", metrics) if claim.source == "ours"]
    assert [claim.verdict for claim in found] == ["holds", "holds"]
    metrics["mean"] = rows()
    assert judge("mnist-retrieval", metrics)[-1].verdict == "cannot be judged"
    metrics["mean"] = rows(difference=0.01)
    assert judge("mnist-retrieval", metrics)[-1].verdict == "does not hold"
    metrics["mean"] = rows(relative=None)
    assert judge("mnist-retrieval", metrics)[-1].verdict == "cannot be judged"


def test_every_experiment_has_claims_and_every_claim_its_rule():
    assert verdicts("mnist-retrieval", {}) == {}
    for experiment in EXPERIMENTS:
        metrics = {"logic": rows()} if experiment.endswith("retrieval") else {}
        claims = judge(experiment, metrics)
        assert claims
        assert all(claim.rule and claim.evidence for claim in claims)
