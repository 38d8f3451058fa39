"""Offline analysis of snapshots: decoding, export, reports and their page. Nothing here runs in a node."""
