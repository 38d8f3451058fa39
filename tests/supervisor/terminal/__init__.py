"""Tests of ``supervisor/terminal``."""
