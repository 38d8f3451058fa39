"""Tests of ``actors/broker``."""
