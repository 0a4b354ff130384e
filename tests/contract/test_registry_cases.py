import pytest

from overstory.protocol.mechanisms.registry import REGISTRY
from support.contract_cases import SMALL, SMALL_CASES, TYPICAL, TYPICAL_CASES


@pytest.mark.parametrize("table", [SMALL, TYPICAL], ids=["SMALL", "TYPICAL"])
def test_every_mechanism_is_under_contract(table):
    assert set(table) == set(REGISTRY), "give each registry name its parameters in tests/support/contract_cases.py"
    assert all(table.values()), "an empty table tests nothing"


def test_a_mechanism_knows_its_own_name():
    assert [case for case in SMALL_CASES + TYPICAL_CASES if case.build().name != case.name] == []
