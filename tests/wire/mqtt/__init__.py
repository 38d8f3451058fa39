"""Tests of ``wire/mqtt``: packets, properties, topics, runs of PUBLISHes."""
