"""Somebody who means harm: files, requests and packets that are written to hurt, each held against a stated bound."""
