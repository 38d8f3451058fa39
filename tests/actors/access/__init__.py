"""Tests of ``actors/access``."""
