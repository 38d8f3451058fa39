"""Since when each lane's link has been down, across the lives of the lane's process. Pure."""

from __future__ import annotations

from wire.status.bridges import LinkFigures


class LinkDowns:
    """The times at which the links of lanes went down, by the name of their Connection; one that stands, or is paused, is not among
    them."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def note(self, connection: str, link: LinkFigures, now_s: float) -> None:
        """``link``: what the Connection says of it now. A process that has not been connected yet goes on with what was before."""
        down_s = link.down_s
        if down_s is None:
            self._since_s.pop(connection, None)
        elif link.connections:
            self._since_s[connection] = now_s - down_s
        else:
            self._since_s.setdefault(connection, now_s - down_s)

    def down_s(self, connection: str, now_s: float) -> float | None:
        """For how long it has been down; None if it is not, or nobody has said."""
        since_s = self._since_s.get(connection)
        return None if since_s is None else round(max(0.0, now_s - since_s), 3)
