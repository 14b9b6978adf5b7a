"""Experiments: each evaluates a model on a data set and returns an `Outcome`."""
