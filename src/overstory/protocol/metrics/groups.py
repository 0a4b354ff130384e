"""The groups of a metric's devices: a reviewed public variable, such as the release, that is sent in clear.

Epsilon protects the value of a report, and nothing protects its group. So the groups are few, listed, and each has at
least as many devices as the floor says: a rare group would be a name for its devices, and link their reports. What a
group has is reckoned from public shares, never from reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from overstory.protocol.errors import ParameterError, suggestion
from overstory.protocol.metrics.toml_fields import Fields, Row, row
from overstory.protocol.wire import GROUP, METRIC_ID

OTHER: Final = "other"  # the group of devices that are in none of the listed ones

FLOOR: Final = 1000  # devices that a group has at least, unless the registry says otherwise

MOST_GROUPS: Final = 256
MOST_DEVICES: Final = 1 << 40
ROUNDING: Final = 1e-9
WANTED: Final = 'a table such as {by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'


@dataclass(frozen=True)
class Groups:
    """The groups that a metric's devices are in; ParameterError where one is too small, or its name cannot travel."""

    by: str  # what the groups are of, such as "release"
    shares: Mapping[str, float] = field(hash=False)  # of all devices, public; the rest is in the group "other"
    devices: int  # expected to report
    floor: int = FLOOR  # the fewest devices that a group may have

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", {name: float(x) for name, x in self.shares.items()})
        for key, problem in _problems(self.by, self.shares, self.devices, self.floor):
            raise ParameterError(f"{key}: {problem}")

    @property
    def names(self) -> tuple[str, ...]:
        """Every group, the one of all others last."""
        return (*self.shares, OTHER)

    def of(self, value: str | None) -> str:
        return value if value is not None and value in self.shares else OTHER

    def share(self, name: str) -> float:
        if name == OTHER:
            return max(1.0 - sum(self.shares.values()), 0.0)
        if name not in self.shares:
            listed = ", ".join(self.names)
            raise ParameterError(
                f"there is no group {name!r:.60}: the groups are {listed}{suggestion(name, self.names)}"
            )
        return self.shares[name]

    def with_share(self, name: str | None = None) -> tuple[str, float]:
        """Return a group, the rarest unless given, with its share of all devices: no less than one device's."""
        rarest = min((group for group in self.names if self.share(group) > ROUNDING), key=self.share)
        group = rarest if name is None else name
        return group, max(self.share(group), 1 / self.devices)

    def expected(self, name: str) -> float:
        return self.share(name) * self.devices

    def hidden(self, name: str) -> bool:
        return self.expected(name) < self.floor * (1 - ROUNDING)

    def canonical(self) -> dict[str, Any]:
        """Return what a person agrees to: what the groups are of, and each of them."""
        return {"by": self.by, "groups": sorted(self.shares)}

    def to_json(self) -> dict[str, Any]:
        return {"by": self.by, "shares": dict(self.shares), "devices": self.devices, "floor": self.floor}


def _problems(by: str, shares: Mapping[str, float], devices: int, floor: int) -> Iterator[tuple[str, str]]:
    if METRIC_ID.fullmatch(by) is None:
        yield "by", f"{by!r:.100}: give up to 64 of a-z, 0-9, '.', '_' and '-', a-z or 0-9 first"
    if not 1 <= len(shares) <= MOST_GROUPS:
        yield "shares", f"{len(shares)} groups: list 1 to {MOST_GROUPS}, each with its share of all devices"
    yield from (("shares", problem) for problem in _wrong_names(shares))
    wrong = [name for name, share in shares.items() if not 0 < share <= 1]
    for name in wrong:
        yield "shares", f"{name!r:.60} has the share {shares[name]:g}: give a share of all devices, above 0"
    total = sum(shares.values())
    if not wrong and total > 1 + ROUNDING:
        yield "shares", f"the shares add up to {total:.6g}: give shares of all devices, which add up to at most 1"
    elif not wrong:
        rest = 1 - total
        yield from _rare({**shares, **({OTHER: rest} if rest > ROUNDING else {})}, devices, floor)


def _wrong_names(shares: Mapping[str, float]) -> Iterator[str]:
    seen = {OTHER: OTHER}
    for name in shares:
        if GROUP.fullmatch(name) is None:
            yield (
                f"{name!r:.60} cannot name a group: give up to 32 of a-z, A-Z, 0-9, '.', '_', '+', '-' and spaces "
                "inside, a letter or digit first"
            )
        elif name.lower() == OTHER:
            yield f"{name!r} is the group of all devices that are in no listed one: leave it out"
        elif (before := seen.setdefault(name.lower(), name)) != name:
            yield f"{name!r} and {before!r} differ in capital letters alone: give each group a name of its own"


def _rare(shares: Mapping[str, float], devices: int, floor: int) -> Iterator[tuple[str, str]]:
    """A rare group identifies its devices; so does being in no group where nearly all devices are in one."""
    for name, share in shares.items():
        if share * devices < floor * (1 - ROUNDING):
            advice = f"leave it out, and its devices report {OTHER!r}"
            if name == OTHER:
                advice = f"leave the rarest groups out, so that more devices report {OTHER!r}, or correct the shares"
            fewer = f"{share * devices:,.0f} of {devices:,} devices, fewer than the floor of {floor:,}"
            yield "shares", f"{name!r} has {fewer}: a rare group singles its devices out in every report; {advice}"


def _by(table: Fields, key: str) -> str | None:
    wanted = 'what the groups are of, such as "release"'
    return table.taken(key, str, "{}: give a short name, such as release", wanted=wanted)


def _shares(table: Fields, key: str) -> dict[str, Any] | None:
    wanted = 'each group with its public share of all devices, such as {"1.0" = 0.6}: groups are listed, not free text'
    problem = 'give a table of groups with their shares, such as {"1.0" = 0.6, "1.1" = 0.3}, with quotes'
    return table.taken(key, dict, problem, lambda given: {*map(type, given.values())} <= {int, float}, wanted=wanted)


DEVICES: Final = "how many devices are expected to report, which no report shows: from sales, downloads"
ROWS: Final[Mapping[str, Row]] = {
    "by": _by,
    "shares": _shares,
    "devices": row(Fields.whole, 1, MOST_DEVICES, wanted=DEVICES),
    "floor": row(Fields.whole, 1, MOST_DEVICES, default=FLOOR),
}


def read_groups(fields: Fields) -> Groups | None:
    """Return the groups that a metric's table gives; None after noting each fault."""
    values = fields.read_table("groups", WANTED, ROWS)
    problems = [] if values is None else [*_problems(**values)]
    for key, problem in problems:
        fields.fault(f"groups.{key}", problem)
    return None if values is None or problems else Groups(**values)


def check_one_variable(metrics: Fields, groups: Mapping[str, Groups | None]) -> None:
    """Note a fault where metrics have different groups: together, they would tell devices apart."""
    first: tuple[str, Groups] | None = None
    for name, own in groups.items():
        if own is None:
            continue
        if first is None:
            first = name, own
        elif own.canonical() != first[1].canonical():
            metrics.fault(
                f"{name}.groups" if "." not in name else None,
                f"{name} has groups by {own.by} ({', '.join(own.shares)}), and {first[0]} by {first[1].by} "
                f"({', '.join(first[1].shares)}): a device that sends both is in a smaller group, of all with the same "
                "two; give every metric of the registry the same groups",
            )
