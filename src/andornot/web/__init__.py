"""The page to search by pictures, and the same as an HTTP API."""
