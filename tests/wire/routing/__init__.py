"""Tests of ``wire/routing``."""
