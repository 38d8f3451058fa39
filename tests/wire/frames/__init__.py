"""Tests of ``wire/frames``."""
