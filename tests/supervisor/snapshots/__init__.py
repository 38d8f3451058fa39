"""Tests of ``supervisor/snapshots``."""
