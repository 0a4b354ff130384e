"""Digits that a stranger writes are read by one bounded function: `int` raises past 4,300 of them."""

import ast
from pathlib import Path

import overstory

SOURCE = Path(overstory.__file__).parent
AT_THE_EDGE = (
    "relay",
    "supervision",
    "gateway",
    "console",
    "collector/http",
    "collector/oblivious",
    "collector/ingest",
    "client/upload",
    "protocol/oblivious",
    "protocol/wire",
    "protocol/domains",
)
"""Where bytes of strangers are read."""

BOUNDED = {
    "protocol/wire/__init__.py: int(text)": "the function itself",
    "protocol/domains/codes.py: int(bare)": "at most 20 digits, checked in the line before",
    "gateway/readings.py: int(raw)": "of a line of at most 64 KiB; its ValueError is the line's",
    "client/upload/delivery.py: int(failures)": "of the device's own state",
    "client/upload/delivery.py: int(since)": "of the device's own state",
}
NUMBERS = {
    "relay/service.py: int(parsed)": "an IP address",
    "gateway/readings.py: int(number)": "a finite float",
    "console/access.py: int(SESSION_SECONDS)": "a constant",
    "supervision/connection.py: int(offer.args[0])": "the parser's place in the bytes",
    "collector/ingest.py: int(i)": "a place in an array",
    "console/changes.py: int(np.argmax(self.numbers))": "a place in an array",
    "console/changes.py: int(np.argmax(point.numbers))": "a place in an array",
    "protocol/domains/numbers.py: int(value)": "a float",
}
"""Arguments that are no text."""


def conversions(tree):
    """Yield calls of `int` on what is no arithmetic and no result of a numeric function."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "int":
            (argument,) = call.args[:1] or (ast.Constant(0),)
            numeric = isinstance(argument, ast.BinOp) or (
                isinstance(argument, ast.Call)
                and isinstance(argument.func, ast.Attribute)
                and argument.func.attr in {"sum", "max", "read", "clock"}
            )
            if not numeric:
                yield call


def test_no_text_of_a_stranger_becomes_a_number_without_a_bound():
    found = {
        f"{path.relative_to(SOURCE)}: {ast.unparse(call)}"
        for path in sorted(SOURCE.rglob("*.py"))
        if str(path.relative_to(SOURCE)).startswith(AT_THE_EDGE)
        for call in conversions(ast.parse(path.read_text("utf-8")))
    }
    assert found - BOUNDED.keys() - NUMBERS.keys() == set(), "use protocol.wire.parse_digits"
    assert (BOUNDED.keys() | NUMBERS.keys()) - found == set(), "these are gone: take them out of the list"


def test_no_other_function_checks_digits_before_it_converts_them():
    """`isdigit` is true of superscripts, and of five thousand digits."""
    checks = {"isdigit", "isdecimal", "isnumeric"}
    texts = {path: path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    for path, text in texts.items():
        for function in ast.walk(ast.parse(text if any(name in text for name in checks) else "")):
            if isinstance(function, ast.FunctionDef):
                names = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
                allowed = function.name == "parse_digits" or path.name == "codes.py"
                assert allowed or not (names & checks and list(conversions(function))), f"{path}: {function.name}"


def test_a_conversion_without_a_bound_is_noticed():
    assert [ast.unparse(call) for call in conversions(ast.parse("int(header); int(a // b); int(x.sum())"))] == [
        "int(header)"
    ]
