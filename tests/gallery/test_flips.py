"""Damaged files: answers are right or refused with one line, and a repair loses nothing that could be kept."""

import flips
import pytest


def wrong(trials: list[tuple[str, str, str]]) -> list[str]:
    return [
        f"{kind} {what}: {outcome}"
        for kind, what, outcome in trials
        if outcome not in ("no effect", "refused and repaired")
    ]


def test_damage_of_each_kind_is_harmless_or_refused_and_repaired(tmp_path):
    trials = list(flips.run(tmp_path, 3 * len(flips.KINDS), 1))
    assert wrong(trials) == []
    refused = {kind for kind, _, outcome in trials if outcome == "refused and repaired"}
    assert refused >= {"data", "deletions", "manifest", "indexes"}


@pytest.mark.slow
def test_many_damages_are_harmless_or_refused_and_repaired(tmp_path):
    trials = list(flips.run(tmp_path, 300, 2))
    assert wrong(trials) == []
    assert sum(outcome == "refused and repaired" for _, _, outcome in trials) > 100
