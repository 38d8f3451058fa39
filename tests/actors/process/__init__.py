"""Tests of ``actors/process``."""
