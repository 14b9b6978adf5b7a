"""The paper's experiments, each with one command, at a size that the machine can carry."""

from .experiments import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "reproduce"]
