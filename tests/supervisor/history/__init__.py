"""Tests of ``supervisor/history``."""
