"""Tests of ``wire/door``."""
