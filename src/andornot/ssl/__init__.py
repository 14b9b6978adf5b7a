"""How a model is learned from pictures without labels."""
