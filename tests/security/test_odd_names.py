"""Names that are none end in one sentence: hosts, addresses, tokens' ids."""

import pytest

from overstory.collector.store import open_store
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from overstory.queries.sources.remote import RemoteError, read_remote
from overstory.supervision.listening import Listening, ServingError


@pytest.mark.parametrize("host", ["\udcff", "9" * 5000, "a\u202eb", "x" * 64 + ".example"])
def test_a_host_that_no_name_can_be_is_said(host):
    with pytest.raises(ServingError, match="cannot listen on"):
        Listening(host, 0).bind()


@pytest.mark.parametrize("url", ["http://[", "postgresql://[::1", "", "://", "http://"])
def test_half_an_address_is_no_collectors(url):
    metric = next(iter(parse_registry(EXAMPLE).values()))
    with pytest.raises(RemoteError, match="no collector's address"):
        read_remote(url, "token", metric)


@pytest.mark.parametrize("name", ["\udcff", "ü", ""])
def test_a_token_that_cannot_be_is_not_there(tmp_path, name):
    with open_store(str(tmp_path / "store.db"), create=True) as store, pytest.raises(ParameterError, match="no token"):
        store.revoke_token(name)
