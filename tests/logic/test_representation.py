import copy
import pickle

import numpy as np
import pytest
import torch

from andornot import Representation, cross_entropy

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def batch(*shape: int) -> Representation:
    return Representation.from_logits(torch.randn(*shape, generator=torch.Generator().manual_seed(0)))


def test_lists_arrays_and_tensors_are_welcome():
    rows = [[0.25, 0.75], [1, 0]]
    for probs in (rows, np.array(rows), torch.tensor(rows)):
        assert Representation(probs) == Representation(rows)
    assert Representation([[0, 1]]).dtype == torch.get_default_dtype()


def test_probabilities_are_kept_as_given():
    probs = torch.rand(3, 4, 5).softmax(-1)
    assert Representation(probs).probs is probs


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_softmax_in_any_precision_is_valid(dtype):
    probs = (torch.randn(1000, 4, 64, generator=torch.Generator().manual_seed(0)) * 3).softmax(-1).to(dtype)
    assert Representation(probs).dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_off_by_more_than_rounding_are_refused(dtype):
    with pytest.raises(ValueError, match=r"at \[1, 0\] is the sum of a row.*must be 1"):
        Representation(torch.tensor([[[0.5, 0.5]], [[0.5, 0.45]]], dtype=dtype))


@pytest.mark.parametrize(
    ("probs", "error", "message"),
    [
        ([0.5, 0.5], ValueError, r"expected shape \(\.\.\., N, M\).*got \(2,\)"),
        ([[1.0]], ValueError, "M ≥ 2"),
        (torch.zeros(0, 4), ValueError, "N ≥ 1"),
        ([[0.5, float("nan")]], ValueError, r"nan at \[0, 1\] is not a finite number"),
        ([[float("inf"), 0.0]], ValueError, r"inf at \[0, 0\] is not a finite number"),
        ([[1.5, -0.5]], ValueError, r"-0.5 at \[0, 1\] is negative.*from_logits"),
        ([[2.0, 3.0]], ValueError, r"5 at \[0\] is the sum"),
        ("text", TypeError, "expected numbers"),
        ([[1.0, 2.0], [1.0]], TypeError, "expected numbers"),
        (torch.zeros(1, 2, dtype=torch.complex64), TypeError, "complex64"),
    ],
)
def test_what_is_no_distribution_is_refused_with_the_place(probs, error, message):
    with pytest.raises(error, match=message):
        Representation(probs)


def test_validation_can_be_skipped():
    probs = torch.full((1, 2), float("nan"))
    assert Representation(probs, validate=False).probs is probs


def test_an_empty_batch_is_fine():
    r = Representation(torch.zeros(0, 3, 4))
    assert len(r) == 0
    assert (r | r).batch_shape == (0,)
    assert r.degrees.shape == (0, 3)


def test_from_logits_is_the_sharpened_softmax():
    logits = torch.randn(5, 3, 8, dtype=torch.float64)
    for temperature in (0.04, 0.1, 1.0):
        expected = torch.exp(logits / temperature - (logits / temperature).logsumexp(-1, keepdim=True))
        torch.testing.assert_close(Representation.from_logits(logits, temperature).probs, expected)


@pytest.mark.parametrize("temperature", [0, -1, float("nan")])
def test_from_logits_refuses_a_bad_temperature(temperature):
    with pytest.raises(ValueError, match="temperature must be above 0"):
        Representation.from_logits([[0.0, 1.0]], temperature)


def test_from_logits_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match=r"nan at \[0, 0\]"):
        Representation.from_logits([[float("nan"), 0.0]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_degrees_are_expected_truth_values(dtype):
    r = batch(6, 3, 5).to(dtype)
    expected = sum(k / 4 * r.probs[..., k].double() for k in range(5))
    assert r.degrees.dtype == dtype
    torch.testing.assert_close(r.degrees.double(), expected, atol=torch.finfo(dtype).eps, rtol=0)


def test_indexing_takes_images_never_features():
    r = batch(4, 6, 3, 2)
    assert r[0].batch_shape == (6,)
    assert r[0, 1].batch_shape == ()
    assert r[..., 1].batch_shape == (4,)
    assert r[:, 2:4].batch_shape == (4, 2)
    assert r[None].batch_shape == (1, 4, 6)
    assert r[torch.tensor([0, 2])].batch_shape == (2, 6)
    assert r[[0, 2]].batch_shape == (2, 6)
    assert r[np.array([1, 3])].batch_shape == (2, 6)
    mask = torch.zeros(4, 6, dtype=torch.bool)
    mask[1, 2] = mask[3, 4] = True
    assert torch.equal(r[mask].probs, torch.stack([r.probs[1, 2], r.probs[3, 4]]))
    assert torch.equal(r[..., 1].probs, r.probs[:, 1])
    for index in ((0, 0, 0), (mask, 0), (..., 0, 0, 0)):
        with pytest.raises(IndexError, match="features are not indexed here"):
            r[index]
    with pytest.raises(TypeError, match="str"):
        r["a"]
    with pytest.raises(IndexError):
        r[4]


def test_len_and_iteration_follow_the_first_leading_dimension():
    r = batch(4, 3, 2)
    assert len(r) == 4
    assert [one.batch_shape for one in r] == [()] * 4
    assert Representation.stack(list(r)) == r
    with pytest.raises(TypeError, match=r"no len\(\)"):
        len(r[0])
    with pytest.raises(TypeError):
        iter(r[0])


def test_stack_and_cat_join_leading_dimensions():
    r = batch(4, 6, 3, 2)
    assert Representation.stack([r, r]).batch_shape == (2, 4, 6)
    assert Representation.stack([r, r], dim=-1).batch_shape == (4, 6, 2)
    assert Representation.cat([r, r[:1]]).batch_shape == (5, 6)
    assert Representation.cat([r, r], dim=-1).batch_shape == (4, 12)
    assert torch.equal(Representation.cat([r, r], dim=-1)[:, 6:].probs, r.probs)
    with pytest.raises(IndexError, match="not one of the 2 leading dimensions"):
        Representation.cat([r, r], dim=2)
    with pytest.raises(ValueError, match="at least one"):
        Representation.stack([])
    with pytest.raises(ValueError, match="only those of one model"):
        Representation.cat([r, batch(4, 6, 3, 3)])


def test_equality_is_one_bool():
    r = batch(4, 3, 2)
    assert (r == Representation(r.probs.clone())) is True
    assert (r == ~r) is False
    assert (r == r[:2]) is False
    assert (r != ~r) is True
    assert (r == "text") is False
    assert r == r.to(torch.float64)
    with pytest.raises(TypeError, match="unhashable"):
        hash(r)


def test_isclose_allows_for_rounding():
    r = batch(4, 3, 2)
    moved = Representation(r.probs + 1e-6 * torch.tensor([1, -1]), validate=False)
    assert r != moved
    assert r.isclose(moved)
    assert not r.isclose(moved, tolerance=1e-8)
    assert not r.isclose(r[:1])
    with pytest.raises(TypeError, match="expected a Representation, got int"):
        r.isclose(3)


def test_and_or_not_as_words_are_refused_instead_of_silently_wrong():
    a, b = batch(3, 2), batch(3, 2)
    for mistake in (lambda: a and b, lambda: a or b, lambda: not a, lambda: bool(batch(0, 3, 2))):
        with pytest.raises(TypeError, match=r"write &, \| and ~"):
            mistake()


def test_repr_is_short():
    assert repr(batch(4, 3, 2)) == "Representation(batch=(4,), N=3, M=2, float32)"
    assert repr(batch(3, 2).to("meta")) == "Representation(N=3, M=2, float32, meta)"


def test_to_and_detach_give_new_values():
    r = Representation(batch(3, 2).probs.requires_grad_())
    assert r.to(torch.float64).dtype == torch.float64
    assert r.probs.requires_grad
    assert not r.detach().probs.requires_grad


def test_log_probs_are_computed_once_unless_gradients_are_wanted():
    r = Representation([[1.0, 0.0]])
    assert r.log_probs is r.log_probs
    torch.testing.assert_close(r.log_probs, torch.tensor([[0.0, np.log(1e-12)]], dtype=torch.float32))
    learning = Representation(torch.tensor([[0.25, 0.75]], requires_grad=True))
    for _ in range(2):
        learning.log_probs.sum().backward()
    torch.testing.assert_close(learning.probs.grad, 2 / learning.probs.detach())


def test_predictions_learn_even_where_a_probability_is_too_small_for_its_logarithm():
    logits = torch.tensor([[0.0, 100.0]], requires_grad=True)
    prediction = Representation.from_logits(logits)
    assert prediction.probs[0, 0] < 1e-12
    assert prediction.log_probs[0, 0].item() == -100
    cross_entropy(Representation([[1.0, 0.0]]), prediction).backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[-1.0, 1.0]]))


def test_copies_and_pickles_are_equal():
    r = batch(4, 3, 2)
    assert copy.deepcopy(r) == r
    assert pickle.loads(pickle.dumps(r)) == r


def test_attributes_cannot_be_replaced():
    with pytest.raises(AttributeError):
        batch(3, 2).probs = torch.zeros(3, 2)
