"""Tests: each promise where it could break; the folders mirror the packages."""
