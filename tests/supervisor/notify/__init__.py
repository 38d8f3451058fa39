"""Tests of the sending of metrics."""
