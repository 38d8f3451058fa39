"""Tests of ``wire/access``."""
