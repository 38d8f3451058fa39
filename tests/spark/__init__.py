"""Tests that need Java."""
