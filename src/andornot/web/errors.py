"""What can go wrong before there is a page."""

from ..errors import AndornotError


class ServeError(AndornotError):
    """A server that cannot start: says what is wrong, and what would be right."""
