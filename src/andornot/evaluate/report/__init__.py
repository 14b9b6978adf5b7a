"""Outcomes for people and programs: tables, charts, one page, and its figures as JSON."""
