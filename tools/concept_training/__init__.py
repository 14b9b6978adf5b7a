"""Training of the named features in `src/andornot/concepts`: encoding, heads, calibration, evaluation."""
