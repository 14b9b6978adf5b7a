"""The protocols: which pictures, what is trained or asked with them, and what comes of it."""
