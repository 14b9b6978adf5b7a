"""The version, in its own module so that building the package does not import torch."""

__version__ = "0.3.0"
