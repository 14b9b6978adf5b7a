"""Metrics: pure functions on tensors, without models, images or files."""
