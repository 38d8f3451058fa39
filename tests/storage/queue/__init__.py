"""Tests of ``storage/queue``."""
