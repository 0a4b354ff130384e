"""The page of the Python API, as `make docs` writes it into the site: `python docs/reference/write_api.py` prints it.

The public names are those of the packages' `__all__`. Each name has its signature and its docstring; a class has its
public methods and properties too.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, is_dataclass
from functools import cache, cached_property
from itertools import takewhile
from types import ModuleType
from typing import Any, Final, get_origin

PACKAGES: Final = (
    "overstory",
    "overstory.client",
    "overstory.privacy",
    "overstory.planning",
    "overstory.discovery",
    "overstory.protocol.metrics",
    "overstory.protocol.domains",
    "overstory.protocol.numeric",
)
HEADER: Final = """# Python API

The public names of the packages: what each package lists in its `__all__`. All other names may change without notice.
This page is written from the docstrings.

Arrays are NumPy arrays; each states its dtype and shape. F64 is an array of float64. Epsilon is in nats.
"""
SECTIONS: Final = (
    "Parameters",
    "Attributes",
    "Returns",
    "Yields",
    "Raises",
    "Warns",
    "See Also",
    "Notes",
    "References",
    "Examples",
)
LISTED: Final = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")
WIDTH: Final = 100  # columns of a signature on one line


# --- docstrings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """An entry of a section: ``names : kind``, and the text below it."""

    names: tuple[str, ...]
    kind: str
    text: str


@dataclass(frozen=True)
class Docstring:
    """A numpydoc docstring: the text above the sections, and the sections' texts by title."""

    opening: str
    sections: dict[str, str]

    def entries(self, title: str) -> list[Entry]:
        """Return the entries of a section; none where there is no such section."""
        entries = []
        for block in re.split(r"\n(?=\S)", self.sections.get(title, "").strip("\n")):
            head, _, text = block.partition("\n")
            names, _, kind = head.partition(" : ")
            several = names.split(", ") if title in {"Parameters", "Attributes"} else [names]
            if head:
                entries.append(Entry(tuple(several), kind, textwrap.dedent(text).strip()))
        return entries


def parse(text: str) -> Docstring:
    """Cut a docstring into its sections."""
    titles = "|".join(SECTIONS)
    opening, *rest = re.split(rf"^({titles})\n-+\n", inspect.cleandoc(text), flags=re.MULTILINE)
    return Docstring(
        opening.strip(), {title: body.strip("\n") for title, body in zip(rest[::2], rest[1::2], strict=True)}
    )


def with_fields(doc: Docstring, value: type) -> Docstring:
    """Return the docstring of a record or an enumeration with its fields' comments for attributes.

    An array's comment begins with what it is: ``ndarray of float64, shape (M,): the p-values``.
    """
    comments = dict(field_comments(value)) if is_dataclass(value) or issubclass(value, enum.Enum) else {}
    if not comments or {"Attributes", "Parameters"} & doc.sections.keys():
        return doc
    attributes = ""
    for name, comment in comments.items():
        kind, _, text = comment.rpartition(": ") if comment.startswith("ndarray of ") else ("", "", comment)
        text = text if re.match("[b-z][ ,]", text) else text[:1].upper() + text[1:]  # n reports, d values
        attributes += f"{name}{f' : {kind}' if kind else ''}\n    {text}.\n"
    return Docstring(doc.opening, {"Attributes": attributes} | doc.sections)


def field_comments(value: type) -> Iterator[tuple[str, str]]:
    """Yield each field of a class that has a comment, after it or in the lines above."""
    lines = textwrap.dedent(inspect.getsource(value)).split("\n")
    for node in ast.parse("\n".join(lines)).body[0].body:  # type: ignore[attr-defined] # a class
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(target, ast.Name):
            continue
        end = node.end_lineno or node.lineno
        comment = lines[end - 1].encode()[node.end_col_offset or 0 :].decode().strip()
        above = list(takewhile(lambda line: line.startswith("    #"), reversed(lines[: node.lineno - 1])))
        text = comment or " ".join(line.strip() for line in reversed(above))
        if text:
            yield target.id, text.replace("# ", "")


# --- names ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Public:
    """A public name: the first package that lists it, and what it is."""

    package: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """The dotted name."""
        return f"{self.package}.{self.name}"

    @property
    def kind(self) -> str:
        """A class, a function, a type alias or a constant."""
        if inspect.isclass(self.value):
            return "class"
        if inspect.isfunction(self.value):
            return "function"
        return "type alias" if get_origin(self.value) else "constant"

    @cached_property
    def doc(self) -> Docstring:
        """The docstring; of a type alias or constant, the text below its assignment."""
        if self.kind == "class":
            return with_fields(parse(self.value.__dict__.get("__doc__") or ""), self.value)
        return parse(self.value.__doc__ or "" if self.kind == "function" else assigned_doc(self.package, self.name))

    def members(self) -> Iterator[tuple[str, Any]]:
        """Yield the public methods and properties of a class that no public class above it has."""
        if self.kind != "class":
            return
        above = {name for base in self.value.__mro__[1:] if base in classes() for name in dir(base)}
        for base in self.value.__mro__:
            if not base.__module__.startswith("overstory") or (base is not self.value and base in classes()):
                continue
            for name, member in vars(base).items():
                if not name.startswith("_") and is_member(member) and name not in above:
                    above.add(name)
                    yield name, member


def is_member(member: Any) -> bool:
    """Return whether something in a class is a method or a property."""
    return inspect.isfunction(member) or isinstance(member, property | cached_property | classmethod | staticmethod)


def member_doc(value: type, name: str) -> str:
    """Return the docstring of a method or a property: its own, or that of the one which it overrides."""
    members = [member for base in value.__mro__ if is_member(member := vars(base).get(name))]
    return next((member.__doc__ for member in members if member.__doc__), "")


@cache
def names() -> tuple[Public, ...]:
    """Return every public name once, by package, in the order of the `__all__`s."""
    seen: set[Any] = set()
    listed = []
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            key = (name, id(value))
            if not name.startswith("__") and key not in seen:
                seen.add(key)
                listed.append(Public(package, name, value))
    return tuple(listed)


@cache
def classes() -> frozenset[type]:
    """Return the public classes."""
    return frozenset(public.value for public in names() if public.kind == "class")


def assigned_doc(package: str, name: str) -> str:
    """Return the string below the assignment of a name, in the package or the module that it is imported from."""
    module = importlib.import_module(package)
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return assigned_doc(str(node.module), name)
    for node, below in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in {getattr(target, "id", None) for target in targets}:
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    return text
    return ""


# --- signatures -------------------------------------------------------------------------------------------------------


def has_signature(call: Callable[..., Any]) -> bool:
    """Return whether a user calls it: enumerations, protocols and errors without a constructor are not called."""
    if not inspect.isclass(call):
        return True
    plain_error = issubclass(call, BaseException) and inspect.isbuiltin(call.__new__) and not user_made(call)
    return not (issubclass(call, enum.Enum) or getattr(call, "_is_protocol", False) or plain_error)


def user_made(call: type) -> bool:
    """Return whether a class of ours in its line has a constructor."""
    return any("__init__" in vars(base) for base in call.__mro__ if base.__module__.startswith("overstory"))


def signature(name: str, call: Callable[..., Any]) -> str:
    """Return a signature as it is written in a program; where a class is not called by a user, its name."""
    prefix = "class " if inspect.isclass(call) else ""
    if not has_signature(call):
        return prefix + name
    shown: list[str] = []
    star = False
    for parameter in inspect.signature(call).parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
        shown.append(parameter_text(parameter))
    returned = "" if inspect.isclass(call) else annotation(inspect.signature(call).return_annotation)
    arrow = f" -> {returned}" if returned else ""
    line = f"{prefix}{name}({', '.join(shown)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {part},\n" for part in shown) + f"){arrow}"


def parameter_text(parameter: inspect.Parameter) -> str:
    """Return a parameter with its annotation and default."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = annotation(parameter.annotation)
    text = stars + parameter.name + (f": {kind}" if kind else "")
    if parameter.default is parameter.empty:
        return text
    return text + (" = " if kind else "=") + default(parameter.default)


def annotation(written: Any) -> str:
    """Return an annotation as it is written."""
    if written is inspect.Parameter.empty:
        return ""
    if isinstance(written, str):
        return written.strip("'\"")
    return str(getattr(written, "__forward_arg__", None) or getattr(written, "__name__", written))


def default(value: Any) -> str:
    """Return a default; a function by its name, what a factory makes as dots."""
    if value is MISSING or "factory" in repr(value):
        return "..."
    if inspect.isbuiltin(value):
        return f"{value.__module__}.{value.__name__}"
    return str(value.__name__) if callable(value) and hasattr(value, "__name__") else repr(value)


# --- the page ---------------------------------------------------------------------------------------------------------


def page() -> str:
    """Return the page."""
    parts = [HEADER]
    for package in PACKAGES:
        module = importlib.import_module(package)
        parts.append(f"## {package}\n")
        parts += [prose(parse(module.__doc__ or "").opening) + "\n"]
        own = [public for public in names() if public.package == package]
        elsewhere = [name for name in module.__all__ if name not in {public.name for public in own}]
        if [name for name in elsewhere if not name.startswith("__")]:
            parts.append(f"Also here: {', '.join(linked(module, name) for name in elsewhere)}.\n")
        for public in own:
            parts += entry(public)
    return "\n".join(parts)


def linked(module: ModuleType, name: str) -> str:
    """Return a link to a name that an earlier package lists."""
    (public,) = [public for public in names() if public.name == name and public.value is getattr(module, name)]
    return f"[{public.path}](#{public.path.replace('.', '').lower()})"


def entry(public: Public) -> Iterator[str]:
    """Yield the parts of the page about a name."""
    yield f"### {public.path}\n"
    if public.kind in {"class", "function"}:
        yield fenced("python", signature(public.name, public.value))
    else:
        yield fenced("python", f"{public.name} = {public.value!r}".replace("typing.", ""))
    yield from sections(public.doc)
    for name, member in public.members():
        call = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(call):
            yield f"#### {public.name}.{name}\n"
            yield fenced("python", signature(name, call))
        else:
            call = member.fget if isinstance(member, property) else member.func
            kind = annotation(inspect.signature(call).return_annotation)
            yield f"#### {public.name}.{name}\n"
            yield fenced("python", f"{name}: {kind}" if kind else name)
        yield from sections(parse(member_doc(public.value, name)))


def sections(doc: Docstring) -> Iterator[str]:
    """Yield the parts of a docstring as Markdown."""
    if doc.opening:
        yield prose(doc.opening) + "\n"
    for title, body in doc.sections.items():
        yield f"**{title}**\n"
        if title in LISTED:
            yield "\n".join(listed(item) for item in doc.entries(title)) + "\n"
        else:
            yield prose(body) + "\n"


def listed(item: Entry) -> str:
    """Return an entry as an item of a list."""
    head = ", ".join(f"`{name}`" for name in item.names) + (f" : *{prose(item.kind)}*" if item.kind else "")
    text = textwrap.indent(prose(item.text), "    ").strip()
    return f"- {head}" + (f": {text}" if text else "")


def prose(text: str) -> str:
    """Return a docstring's text as Markdown: examples are fenced, and the signs of Markdown in words are escaped."""
    paragraphs = re.split(r"\n\s*\n", text)
    parts: list[str] = []
    for paragraph in paragraphs:
        body = textwrap.dedent(paragraph)
        if body.lstrip().startswith(">>>"):
            parts.append(fenced("pycon", body).rstrip("\n"))
        else:
            parts.append(escaped(body))
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Return words as Markdown; double backticks become single ones, and what is in backticks stays as it is."""
    text = re.sub(r"^\.\. \[(\d+)\] ", r"[\1] ", text, flags=re.MULTILINE)
    text = re.sub(r"(\[\d+\])_", r"\1", text).replace("``", "`")
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if place % 2 else re.sub(r"([*_<\[\]])", r"\\\1", part) for place, part in enumerate(parts))


def fenced(language: str, text: str) -> str:
    """Return code between fences."""
    return f"```{language}\n{text}\n```\n"


if __name__ == "__main__":
    print(page(), end="")
