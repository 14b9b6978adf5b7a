import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from andornot.evaluate.metrics.ranking import occurrence_rates


def slow_rates(queries, gallery, labels, top):
    rates = []
    for query in queries.tolist():
        products = [sum(x * y for x, y in zip(query, image, strict=True)) for image in gallery.tolist()]
        nearest = sorted(range(len(products)), key=lambda number: -products[number])[:top]
        rates.append([sum(bool(labels[n, c]) for n in nearest) / top for c in range(labels.shape[1])])
    return rates


@given(
    queries=st.integers(1, 12), images=st.integers(1, 30), classes=st.integers(1, 4), seed=st.integers(0, 99),
    data=st.data(),
)  # fmt: skip
def test_occurrence_rates_agree_with_a_loop(queries, images, classes, seed, data):
    top = data.draw(st.integers(1, images))
    random = torch.Generator().manual_seed(seed)
    asked, gallery = (torch.randn(n, 3, generator=random, dtype=torch.float64) for n in (queries, images))
    labels = torch.rand(images, classes, generator=random) < 0.5
    found = occurrence_rates(asked, gallery, labels, top)
    np.testing.assert_allclose(found, slow_rates(asked, gallery, labels, top), atol=1e-12)


@pytest.mark.parametrize("count", [127, 511, 512, 513, 1100])
def test_a_query_finds_the_same_in_whatever_block_it_is(count):
    random = torch.Generator().manual_seed(count)
    asked, gallery = torch.randn(count, 4, generator=random), torch.randn(50, 4, generator=random)
    labels = torch.rand(50, 3, generator=random) < 0.3
    one_by_one = torch.cat([occurrence_rates(query[None], gallery, labels, 7) for query in asked])
    torch.testing.assert_close(occurrence_rates(asked, gallery, labels, 7), one_by_one)


@pytest.mark.slow
def test_the_memory_of_a_search_is_that_of_one_block():
    """All products of 20,000 queries with 60,000 images would be 4.8 GB."""
    code = (
        "import resource, torch\n"
        "from andornot.evaluate.metrics.ranking import occurrence_rates\n"
        "queries, gallery = torch.randn(20_000, 4), torch.randn(60_000, 4)\n"
        "labels = torch.rand(60_000, 3) < 0.1\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "occurrence_rates(queries[:4], gallery, labels, 50); before = peak()\n"
        "occurrence_rates(queries, gallery, labels, 50); print(peak() - before)\n"
    )
    grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    assert int(grown) * unit < 200e6
