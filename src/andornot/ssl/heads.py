"""The two heads of SimSiam: pooled features → projector → z → predictor → p, each `(B, N·M)` before the softmax."""

from torch import nn


class Projector(nn.Sequential):
    """Makes the logits z from pooled features: three linear layers without bias, each with a batch norm.

    ReLU after the first two. The last batch norm has no affine part, so that each logit has mean 0 and variance 1 in
    a batch. `hidden=None` is the width of the features, as in SimSiam.

    >>> import torch
    >>> Projector(512, None, 20 * 5)(torch.rand(4, 512)).shape
    torch.Size([4, 100])
    """

    def __init__(self, width_in: int, hidden: int | None, width_out: int) -> None:
        hidden = width_in if hidden is None else hidden
        _check_widths(width_in=width_in, hidden=hidden, width_out=width_out)
        super().__init__(
            nn.Linear(width_in, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, width_out, bias=False),
            nn.BatchNorm1d(width_out, affine=False),
        )


class Predictor(nn.Sequential):
    """Makes the logits p from z: linear without bias, batch norm, ReLU, linear with bias; a bottleneck in SimSiam.

    >>> import torch
    >>> Predictor(20 * 5)(torch.rand(4, 100)).shape
    torch.Size([4, 100])
    """

    def __init__(self, width: int, hidden: int = 512) -> None:
        _check_widths(width=width, hidden=hidden)
        super().__init__(
            nn.Linear(width, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, width),
        )


def _check_widths(**widths: int) -> None:
    for name, width in widths.items():
        if width < 1:
            raise ValueError(f"{name} must be at least 1, got {width}")
