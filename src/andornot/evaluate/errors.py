"""What goes wrong in experiments, for the person who reads it."""

from ..errors import AndornotError


class EvaluationError(AndornotError):
    """An experiment that cannot be done with that model or that data: says what would be right."""
