"""Which version of Bascule this is. Packages are built from this file, and a node does not ask its installation.

To ask would cost the supervisor of each node a megabyte.
"""

from __future__ import annotations

VERSION = "0.1.0"
