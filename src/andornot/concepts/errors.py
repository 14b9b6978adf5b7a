"""Errors of named features."""

from ..errors import AndornotError


class ConceptError(AndornotError):
    """A file of named features that can't be read, or a feature map of the wrong shape."""
