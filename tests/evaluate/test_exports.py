"""The public names of `andornot.evaluate`."""

import subprocess
import sys

import pytest
import torch

from andornot import evaluate


@pytest.mark.parametrize("name", evaluate.__all__)
def test_every_public_name_can_be_imported(name):
    assert callable(getattr(evaluate, name)) or name.isupper()
    assert name in dir(evaluate)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'knn'"):
        evaluate.knn  # noqa: B018


def test_importing_the_package_does_not_load_torch():
    code = "import sys, andornot.evaluate; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_metrics_are_pure_functions():
    from andornot.evaluate import average_precision, knn_accuracy, precision_at

    scores, truth = torch.tensor([0.9, 0.1]), torch.tensor([True, False])
    assert average_precision(scores, truth) == precision_at(1, scores, truth) == 1
    features, classes = torch.eye(2), torch.tensor([0, 1])
    assert knn_accuracy(features, classes, features, classes, k=1) == 1
