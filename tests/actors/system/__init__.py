"""Tests of ``actors/system``."""
