"""Tests of ``supervisor/control``."""
