"""Tests of the tables of a snapshot, against a reading of the same store row by row."""
