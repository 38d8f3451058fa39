"""Tests of the data source for Spark and of what it is packed in; one Java for all of them."""
