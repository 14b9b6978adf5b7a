"""Errors of experiments. Apart from them, so that the command line can import it without torch."""

from ..errors import AndornotError


class EvaluationError(AndornotError):
    """Raised when an experiment cannot be done with the given model, data or settings."""
