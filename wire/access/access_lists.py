"""The access control lists of a node's listeners as they are now, and what a client of one of them may do. Pure.

The Listener judges by them, and the Distributor, which deals the messages of shared subscriptions to those that may read them.
Rules are ``wire/access/access_rules.py``'s; which file changed is the supervisor's business.
"""

from __future__ import annotations

from wire.access.access_rules import AccessRules, ClientAccess
from wire.config_settings import AccessSettings, AclRuleSettings, NodeSettings
from wire.frames.supervision import AclChanged

_ListKey = str | tuple[AclRuleSettings, ...] | None  # the file, or the rules themselves; None: everything is allowed


class AccessLists:
    """Listeners with one ACL file have one list."""

    def __init__(self, settings: NodeSettings) -> None:
        self._lists: dict[_ListKey, AccessRules] = {}
        self._of_node = self._add(settings.access)
        self._by_bind = {listener.bind: self._add(listener.access or settings.access) for listener in settings.listeners}
        self._changed: dict[str, AclChanged] = {}

    def _add(self, access: AccessSettings) -> _ListKey:
        key = access.acl_file if access.acl_file is not None else access.acl
        if key is not None and key not in self._lists:
            self._lists[key] = AccessRules(access.acl or ())
        return key

    @property
    def changed(self) -> list[AclChanged]:
        """The rules that a process with just the settings lacks."""
        return list(self._changed.values())

    def change(self, frame: AclChanged) -> bool:
        """The rules of a file are these from now on. Returns whether they are anybody's."""
        if frame.path not in self._lists:
            return False
        self._lists[frame.path] = AccessRules([AclRuleSettings(*rule) for rule in frame.rules])
        self._changed[frame.path] = frame
        return True

    def rights_at(self, bind: str, user: str | None, client_id: str) -> ClientAccess | None:
        """The rights of a client of the listener at ``bind``, by the node's own list if there is none any more; None:
        everything."""
        key = self._by_bind.get(bind, self._of_node)
        return None if key is None else self._lists[key].for_client(user, client_id)
