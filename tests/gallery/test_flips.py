"""Whatever is damaged, nothing is answered wrongly without a word, and nothing is lost that could be kept."""

import flips
import pytest


def test_a_damage_of_each_kind_is_harmless_or_refused_and_repaired(tmp_path):
    _, wrong = flips.run(len(flips.KINDS), 0, tmp_path)
    assert wrong == []


@pytest.mark.slow
def test_two_hundred_damages_are_harmless_or_refused_and_repaired(tmp_path):
    outcomes, wrong = flips.run(200, 1, tmp_path)
    assert wrong == []
    assert outcomes.total() == 200
    assert sum(count for (_, what), count in outcomes.items() if what == "refused and repaired") > 50
