"""BLAKE2b as ``hashlib`` has it, without ``hashlib``: that loads OpenSSL, which takes 4 MB and computes none of it."""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter that keeps it elsewhere
    from hashlib import blake2b

__all__ = ["blake2b"]
