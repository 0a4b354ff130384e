"""What can be a bearer token."""

from typing import Any

import pytest

from overstory.protocol.errors import ParameterError
from overstory.protocol.wire.reasons import check_token


@pytest.mark.parametrize("token", ["a b", "a\r\nHost: x", "é", "\x00", None, b"a"])
def test_a_token_that_no_header_can_hold_is_refused(token: Any) -> None:
    with pytest.raises(ParameterError, match="token: ") as refused:
        check_token(token)
    assert str(token) not in str(refused.value)
