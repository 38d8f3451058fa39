"""An authority for the session: making keys takes longer than the tests that need them."""

from __future__ import annotations

import pytest

from tests.support.authority import Authority, Pair


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs the certificates of this session."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server_pair(authority: Authority) -> Pair:
    """The server's certificate."""
    return authority.issue("server")


@pytest.fixture(scope="session")
def client_pair(authority: Authority) -> Pair:
    """A client's certificate."""
    return authority.issue("pump-7", "/O=Plant/CN=pump-7")
