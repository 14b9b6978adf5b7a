"""What can go wrong with a backbone, in one line for the person who reads it."""

from ...errors import AndornotError


class BackboneError(AndornotError):
    """A backbone that there is not, or that does not take what it was given."""
