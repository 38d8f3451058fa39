"""Tests of ``storage/store``."""
