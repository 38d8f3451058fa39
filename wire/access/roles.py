"""The roles of those who operate a node from elsewhere. The rights of each are ``supervisor/control/roles.py``'s. Pure."""

from __future__ import annotations

from typing import Literal, get_args

Role = Literal["view", "operate", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # each may what the one before it may
