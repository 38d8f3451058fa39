"""Freed memory is given back to the system: the interpreter and glibc would keep it for what comes next."""

from __future__ import annotations

import ctypes
import gc


def give_memory_back() -> None:
    """Release what nothing refers to, and of free memory. It takes milliseconds, and more where much is there."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
