"""The search page and its HTTP API."""
