"""Tests of ``supervisor/config``."""
