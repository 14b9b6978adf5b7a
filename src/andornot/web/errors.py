"""What can go wrong before there is a page."""


class ServeError(ValueError):
    """A server that cannot start: says what is wrong, and what would be right."""
