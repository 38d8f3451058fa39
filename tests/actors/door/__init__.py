"""Tests of ``actors/door``."""
