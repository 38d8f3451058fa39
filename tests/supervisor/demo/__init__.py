"""Tests of ``supervisor/demo``."""
