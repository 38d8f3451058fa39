"""Tests of ``storage/engine``."""
