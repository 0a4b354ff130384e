"""Every public name is on the page of the Python API, and has a full docstring: what it takes, raises and returns.

Held to this are the names of the `__all__`s of the packages that docs/reference/write_api.py lists. Methods and
properties need a docstring; it may be one line.
"""

import ast
import enum
import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHORTEST = 28  # characters of an entry's text, where it names no unit
UNIT = re.compile(r"\b(nats|seconds|bytes|bits|days|UTC)\b")
ARRAY = re.compile(r"\bF64\b|NDArray|ndarray|ArrayLike|array_like")
STATED = re.compile(r"of (bool|u?int\d*|float\d*)\b.*\bshape \(")

spec = importlib.util.spec_from_file_location("write_api", ROOT / "docs" / "reference" / "write_api.py")
api = importlib.util.module_from_spec(spec)
sys.modules["write_api"] = api  # dataclasses look their module up
spec.loader.exec_module(api)

NAMES = {public.path: public for public in api.names()}


def gaps(public):
    if not public.doc.opening:
        yield "no summary"
    if public.kind in {"class", "function"} and not is_enumeration_or_protocol(public.value):
        yield from undescribed(public)
        yield from short_texts(public)
        yield from vague_arrays(public)
        yield from unmentioned_errors(public)
        if is_called(public) and ">>>" not in public.doc.sections.get("Examples", ""):
            yield "no example"
    for name, _ in public.members():
        if not api.member_doc(public.value, name):
            yield f".{name}: no docstring"


def is_enumeration_or_protocol(value):
    return inspect.isclass(value) and (issubclass(value, enum.Enum) or getattr(value, "_is_protocol", False))


def is_called(public):
    """Whether a user calls it: a function, or a class that is more than a record of results."""
    made = inspect.isclass(public.value) and "__init__" in vars(public.value) and not is_dataclass(public.value)
    return public.kind == "function" or made or "Parameters" in public.doc.sections


def is_dataclass(value):
    return hasattr(value, "__dataclass_fields__")


def described(public):
    return [*public.doc.entries("Parameters"), *public.doc.entries("Attributes")]


def parameters(value):
    """The annotations by parameter, with the stars of a docstring; errors without parameters of their own have none."""
    if inspect.isclass(value) and issubclass(value, BaseException) and "__init__" not in vars(value):
        return {}
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    given = inspect.signature(value).parameters.values() if api.has_signature(value) else ()
    return {stars.get(p.kind, "") + p.name: api.annotation(p.annotation) for p in given}


def undescribed(public):
    taken = parameters(public.value)
    bases = public.value.__mro__[1:] if inspect.isclass(public.value) else ()
    above = [other for other in NAMES.values() if other.value in bases]
    names = {name for one in (public, *above) for entry in described(one) for name in entry.names}
    yield from (f"{name}: not described" for name in taken.keys() - names)
    entries = public.doc.entries("Parameters")
    yield from (f"{name}: no such parameter" for entry in entries for name in set(entry.names) - taken.keys())


def short_texts(public):
    for entry in described(public):
        if not entry.text or (len(entry.text) < SHORTEST and not UNIT.search(entry.text)):
            yield f"{', '.join(entry.names)}: says too little: {entry.text!r}"


def vague_arrays(public):
    taken = parameters(public.value)
    for entry in described(public):
        kind = " ".join([entry.kind, *(taken.get(name, "") for name in entry.names)])
        if ARRAY.search(kind) and not STATED.search(entry.kind):
            yield f"{', '.join(entry.names)}: an array without a dtype or shape"
    returned = "" if public.kind == "class" else api.annotation(inspect.signature(public.value).return_annotation)
    stated = any(STATED.search(" ".join([*entry.names, entry.kind])) for entry in public.doc.entries("Returns"))
    if ARRAY.search(returned) and not stated:
        yield "returns an array without a dtype or shape"


def unmentioned_errors(public):
    """Errors that its own code raises by name, and its docstring does not list."""
    mentioned = {name.rpartition(".")[2] for entry in public.doc.entries("Raises") for name in entry.names}
    yield from (f"raises {error}" for error in sorted({*raised(public.value)} - mentioned))


def raised(value):
    own = vars(value) if inspect.isclass(value) else {"__init__": value}
    for call in (own.get("__init__"), own.get("__post_init__")):
        if not inspect.isfunction(call) or call.__code__.co_filename.startswith("<"):  # made by `dataclass`
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(call)))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                name = getattr(node.exc.func, "id", "_")
                yield from () if name.startswith("_") else (name,)


def test_a_public_name_has_a_full_docstring():
    assert {path: found for path, public in NAMES.items() if (found := list(gaps(public)))} == {}


def scaled(values, factor: float, rest: "NDArray") -> "NDArray":  # noqa: F821
    """Return values times a factor.

    Parameters
    ----------
    factor
        A factor.
    rest
        All the values that are scaled too.
    other
        There is no parameter of that name.
    """
    if factor < 0:
        raise ValueError(values, rest)


def test_what_a_docstring_lacks_is_noticed():
    assert list(gaps(api.Public("overstory", "scaled", scaled))) == [
        "values: not described",
        "other: no such parameter",
        "factor: says too little: 'A factor.'",
        "rest: an array without a dtype or shape",
        "returns an array without a dtype or shape",
        "raises ValueError",
        "no example",
    ]


@pytest.mark.parametrize("package", api.PACKAGES)
def test_every_name_of_an_all_exists(package):
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) <= set(dir(module))


def test_every_public_name_has_its_place_on_the_page():
    headings = set(re.findall(r"^### (\S+)$", api.page(), re.MULTILINE))
    assert headings == NAMES.keys()
    for package in api.PACKAGES:
        module = importlib.import_module(package)
        listed = {public.name for public in NAMES.values() if public.value in vars_of(module)}
        assert set(module.__all__) - {"__version__"} <= listed


def vars_of(module):
    return [getattr(module, name) for name in module.__all__]


class Counted(enum.Enum):
    """Two members."""

    ONE = 1  # what there is one of, and no other
    # what comes twice,
    # in two lines
    TWO = 2
    THREE = 3


def test_comments_beside_the_fields_are_the_attributes():
    entries = api.Public("overstory", "Counted", Counted).doc.entries("Attributes")
    assert {entry.names: entry.text for entry in entries} == {
        ("ONE",): "What there is one of, and no other.",
        ("TWO",): "What comes twice, in two lines.",
    }
