"""The one place that holds the version number."""

__version__ = '0.2.0'
