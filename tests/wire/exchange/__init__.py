"""Tests of ``wire/exchange``."""
