"""Tests of ``supervisor/cli``."""
