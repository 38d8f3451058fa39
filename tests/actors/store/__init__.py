"""Tests of ``actors/store``."""
