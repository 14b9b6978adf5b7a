"""The converged linear probe against scikit-learn's logistic regression."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from andornot.probes import DECAY, fit_linear, linear_accuracy


def clusters(count: int, classes: int = 3, width: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    y = torch.arange(count) % classes
    scales = torch.tensor([1.0, 100.0, 0.01, 1.0, 1.0])
    return (torch.randn(classes, width, generator=random)[y] + torch.randn(count, width, generator=random)) * scales, y


def test_it_is_the_logistic_regression_of_standardised_features():
    x, y = clusters(200)
    scaler = StandardScaler().fit(x)
    oracle = LogisticRegression(C=1 / (DECAY * len(x)), tol=1e-8, max_iter=5000).fit(scaler.transform(x), y)
    probabilities = torch.softmax(fit_linear(x, y)(x), 1)
    torch.testing.assert_close(
        probabilities.double(), torch.tensor(oracle.predict_proba(scaler.transform(x))), atol=2e-3, rtol=0
    )


def test_labels_are_one_regression_for_each_class():
    x, y = clusters(200)
    labels = torch.stack([y == 0, y != 1, torch.arange(200) % 2 == 0], 1)
    scaler = StandardScaler().fit(x)
    layer = fit_linear(x, labels, decay=0.01)
    for number in range(3):
        # The mean over three classes divides each class's loss by three, so its penalty counts three times.
        oracle = LogisticRegression(C=1 / (0.03 * len(x)), tol=1e-8, max_iter=5000)
        expected = oracle.fit(scaler.transform(x), labels[:, number]).predict_proba(scaler.transform(x))[:, 1]
        torch.testing.assert_close(
            torch.sigmoid(layer(x))[:, number].double(), torch.tensor(expected), atol=2e-3, rtol=0
        )


def test_scales_and_constant_features_do_not_matter():
    x, y = clusters(90)
    wide = torch.cat([x * 1000 + 5, torch.ones(90, 1)], 1)
    assert linear_accuracy(x[:60], y[:60], x[60:], y[60:]) == pytest.approx(
        linear_accuracy(wide[:60], y[:60], wide[60:], y[60:])
    )


def test_a_class_that_only_the_test_images_have_is_always_wrong():
    x, y = clusters(30)
    assert linear_accuracy(x, y, x[:2], torch.tensor([5, 5])) == 0
