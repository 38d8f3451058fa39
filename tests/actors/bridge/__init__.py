"""Tests of ``actors/bridge``."""
