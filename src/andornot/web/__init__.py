"""The page to search by images, and the same as an HTTP API."""
