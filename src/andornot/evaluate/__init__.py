"""What representations are worth: measurements, figures and reports."""
