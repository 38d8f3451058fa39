"""Tests of ``supervisor/tree``."""
