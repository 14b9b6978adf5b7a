"""Reports of experiments: tables, charts, an HTML page, and metrics as JSON."""
