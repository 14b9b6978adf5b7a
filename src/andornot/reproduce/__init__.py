"""The paper's experiments, each with one command, at a size that the machine can carry."""

from .everything import EVERYTHING, reproduce_all
from .experiments import EXPERIMENTS, reproduce

__all__ = ["EVERYTHING", "EXPERIMENTS", "reproduce", "reproduce_all"]
