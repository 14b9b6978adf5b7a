"""The version, apart from the package so that building the package needs no torch."""

__version__ = "0.2.0.dev0"
