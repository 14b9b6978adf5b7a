"""Pure functions on arrays: what is measured, without models, pictures or files."""
