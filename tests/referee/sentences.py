"""Every form of sentence that is printed, and what it claims: one entry for each.

`read` takes a printed line and returns its claims. A line that has a number in it, or a word of promise, and that no
entry knows is an error: whoever prints a new sentence adds its form here, and says in `life.py` what it means. `JUDGED`
forms make claims; `PLAIN` ones are known and claim nothing that the referee could hold against a life.
"""

# ruff: noqa: E501 - a form is one line, as the sentence is
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

PROMISING = re.compile(
    r"(?i)\d|epsilon|\bnever|no bound|\bnothing|\bnobody|\bno\b|\bnone\b|\bcannot|at most|promise|harmless|reveal|hide|"
    r"\bonly\b|\bevery\b|\balways\b"
)


class UnknownSentenceError(AssertionError):
    """A sentence that seems to promise something, and that no entry knows."""


@dataclass(frozen=True)
class Claim:
    """What a sentence claims.

    `about` is the kind; what the other fields mean depends on it. For an epsilon: `condition` is one of those of
    `model.pairs`, `reports` a number or None for any number, `so_far` whether these are the reports that were made,
    `in_force` whether they are under the parameters in force alone.
    """

    about: str
    line: str
    epsilon: float = math.inf
    odds: float = math.inf  # by how much they move, as printed
    condition: str = ""
    reports: int | None = None
    so_far: bool = False
    in_force: bool = False
    distinct: int | None = None
    spare: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


# --- epsilons: what they are about ------------------------------------------------------------------------------------

N = r"(?P<reports>[\d,]+) reports?"
FORCE = r"(?P<in_force>, by the parameters in force)?"
SAME = "only with the same pattern of changes"
STILL = "only while the value never changes"
ANSWERS = "not counting which reports share their noise"
YEARS = r"in (?:any year|the first year|any \d+ years)"
OF_YEARS = r"(?P<reports>[\d,]+) (?:report|answer)s?(?: of \w+)?"
"""Of one metric. What is said of several `test_years.py` judges."""
OF_VALUES = r"any number of reports of (?:(?P<values>[\d,]+) values?(?P<spare> and nothing)?|any values)"

ABOUT = (
    ("any", rf"whatever you hold and however it changes: (?P<yours>your )?{N}(?P<only>, the only one that a device sends by these parameters)?"),
    ("any", rf"whatever you hold and however it changes, {YEARS}: {OF_YEARS}(?P<ends>, until the budget is used up)?"),
    ("any", rf"one report{FORCE}"),
    ("unchanged", rf"(?P<yours>your )?{N}, {STILL}"),
    ("unchanged", rf"any number of reports, {STILL}"),
    ("values", rf"{OF_VALUES}, {SAME}"),
    ("responses", rf"{OF_VALUES}, {ANSWERS}"),
    # `overstory privacy`, of the parameters alone
    ("unchanged", rf"each further distinct value, {ANSWERS}"),
    ("any", r"all that a device ever reports by these parameters"),
)  # fmt: skip
"""A condition of `model.pairs`, and the words for it.

"The same pattern of changes" is read as it stands: of values. What does not count which reports share their
noise compares histories in which the same reports come from one permanent response.
"""

ODDS = r"odds move by a factor of (?:at most )?(?P<odds>[\d.,]+)|somebody could be practically certain|(?P<why>[^\d]*)"


def about(words):
    """Return what the words before an epsilon's odds are about."""
    for condition, pattern in ABOUT:
        found = re.fullmatch(pattern, words)
        if found:
            given = {name: text for name, text in found.groupdict().items() if text is not None}
            number = given.get("reports")
            one = words.startswith(("one report", "all that a device ever"))
            return {
                "condition": condition,
                "reports": 1 if one else None if number is None else int(number.replace(",", "")),
                "so_far": "yours" in given,
                "in_force": "in_force" in given,
                "distinct": int(given["values"].replace(",", "")) if "values" in given else None,
                "spare": "spare" in given,
                "more": {"only": "only" in given, "ends": "ends" in given},
            }
    return None


def epsilon_of(text):
    found = re.search(r"\d+\.?\d*(?:e[+-]?\d+)?", text.replace(",", ""))
    return float(found[0]) if found and "no bound" not in text else math.inf


def cost(found, words, amount, **more):
    """Return the claim of words with odds or without: `one report; odds move by a factor of at most 2.72`."""
    parts = words.split("; ", 1)
    read, odds = about(parts[0]), re.fullmatch(ODDS, parts[1]) if len(parts) > 1 else None
    if read is None or (len(parts) > 1 and odds is None):
        raise UnknownSentenceError(found.string)
    moved = float(odds["odds"].replace(",", "")) if odds is not None and odds["odds"] else math.inf
    return Claim("epsilon", found.string, amount, moved, **{**read, **more})


def cost_line(found):
    """Read an amount with its words: `epsilon 1 | one report; odds move by a factor of at most 2.72`."""
    words = re.sub(r" \(one per [^)]*\)$", "", found["words"].removesuffix("."))
    yield cost(found, words, epsilon_of(found["amount"]))


def table_row(found):
    """Read a row of a table of claims: `one report | 1 | 2.72 times | [2]`."""
    read = about(found["words"])
    if read is None:
        raise UnknownSentenceError(found.string)
    moved = float(found["odds"].replace(",", "")) if found["odds"] else math.inf
    yield Claim("epsilon", found.string, epsilon_of(found["amount"]), moved, **read)


def inferred(found):
    yield cost(found, found["words"], math.inf, in_force=True)


CERTAINTY = r"(?:to practical certainty|by a factor of at most [\d.,]+|without bound|practically certain|a factor of up to [\d.,]+),? \(?(?:\()?epsilon (?P<e>no bound|[\d.,]+)\)"
SPOKEN = (
    ("any", rf"Any (?P<n>\d+) reports of one device, whatever it holds and however that changes, can change anyone's guess between two histories {CERTAINTY}\."),
    ("any", rf"One report can change anyone's guess between two values {CERTAINTY}\."),
    ("unchanged", rf"After (?P<n>\d+) reports of the same value it is {CERTAINTY}\."),
    ("ever", rf"However many reports of the same value there are, it is {CERTAINTY}; each different value adds the same amount\."),
    ("", r"But for a chance of [\de.-]+ it is [^.]*\.?[^.]*\(epsilon [\d.,]+\)\."),
    ("", r"A change of value can be certain from \d+ reports: the same value always sends the same report\."),
    ("", r"There is no permanent noise: enough reports of one value give it away\."),
    ("", r"A device sends one report by these parameters, and no other: however its value changes, this is all that it ever reveals by them\."),
    ("", r"The best guess among [\d,]+ equally likely values is right in .* from any number\."),
)  # fmt: skip


def spoken(found):
    """Read the paragraph of `overstory privacy`, sentence by sentence; what the attacker achieves is not judged."""
    rest = found.string
    while rest:
        told = ((condition, re.match(pattern, rest)) for condition, pattern in SPOKEN)
        condition, sentence = next((pair for pair in told if pair[1]), ("", None))
        if sentence is None:
            raise UnknownSentenceError(rest)
        rest = rest[sentence.end() :].strip()
        if condition:
            given = sentence.groupdict()
            number = None if condition == "ever" else int(given.get("n") or 1)
            meant = "unchanged" if condition == "ever" else condition
            yield Claim("epsilon", sentence[0], epsilon_of(given["e"]), condition=meant, reports=number)


def guessed(found):
    """Read how often a guess is right as the odds that it stands for: 74 of 100 cases are odds of 74 to 26."""
    right, of = (int(found[name].replace(",", "")) for name in ("right", "of"))
    yield Claim("epsilon", found.string, math.log(right / (of - right)), condition="any", reports=1, in_force=True)


# --- what puts reports together ---------------------------------------------------------------------------------------

EQUAL = (
    r"(?:with the payload, )?the same in every report(?P<still> while the value does not change)?: (?P<bits>[\d.]+) bits?; "
    r"of a million devices(?P<alike> with that value)? (?P<crowd>[\d,]+) shares? it"
)
ALIKE = (
    r"(?P<none>nothing is equal in every report, but|with it,) reports of an unchanged value are alike: two share "
    r"(?P<two>[\d.]+) bits?, 30 and 30 share (?:at most )?(?P<many>[\d.]+) bits?; to tell one device of a million takes 20"
)
NOTHING_SAME = "nothing stays the same from report to report"
IN_GROUP = r"in the group (?P<group>\S+) \([^)]* of all devices, whatever their value\), "


def linkable(found):
    rest = found["words"]
    named = re.match(IN_GROUP, rest)
    group = None if named is None else named["group"]
    rest = rest[named.end() :] if named else rest
    while rest:
        if rest == NOTHING_SAME:
            yield Claim("nothing the same", found.string, more={"group": group})
            return
        equal, alike = re.match(EQUAL, rest), re.match(ALIKE, rest)
        if equal:
            more = {
                "bits": float(equal["bits"]),
                "crowd": int(equal["crowd"].replace(",", "")),
                "unchanged": equal["still"] is not None,
                "alike": equal["alike"] is not None,
                "group": group,
            }
            yield Claim("the same", found.string, more=more)
        elif alike:
            if alike["none"].startswith("nothing"):
                yield Claim("nothing equal", found.string, more={"group": group})
            more = {"two": float(alike["two"]), "many": float(alike["many"]), "group": group}
            yield Claim("alike", found.string, more=more)
        else:
            raise UnknownSentenceError(found.string)
        rest = rest[(equal or alike).end() :].removeprefix("; ")  # type: ignore[union-attr]


# --- single sentences -------------------------------------------------------------------------------------------------


def plainly(kind):
    """Return the reader of a sentence that is a claim by itself, with what it names."""

    def read(found):
        yield Claim(kind, found.string, more={name: text for name, text in found.groupdict().items() if text})

    return read


JUDGED = (
    # what reports cost: `on`, `status`, `view`; a heading of `metrics show`; tables of `metrics show`, `privacy`, /about
    (r"(?P<amount>no bound|epsilon [\d.,]+) \| (?P<words>.*)", cost_line),
    (r"(?P<amount>No bound|Epsilon [\d.,]+): (?P<words>.*)", cost_line),
    (r"(?P<words>[^|]*) \| (?P<amount>no bound|[\d.,]+(?: \([\d.,]+ at delta [\de.-]+\))?) \| (?:(?P<odds>[\d.,]+) times|practically certain|without bound) \| (?:\[\d+\] ?)+", table_row),
    (r"Before: any of [\d,]+ values, all alike\. After: the likeliest is [\d.,]+ times as likely as before\. What is promised of any two values: (?P<words>.*)\.", inferred),
    (r"(?:Any \d+ reports of one device,|One report can change anyone's guess) .*", spoken),
    (r"(?:One report from now on|All reports of (?:any|the first) year): whoever reads (?:it|them) could be practically certain of the truth\.(?: Later years can add to it\.)?", plainly("certain")),
    (r"One report from now on: whoever guesses from it which of two equally likely answers is yours is right in at most (?P<right>[\d,]+) of (?P<of>[\d,]+) cases\. A coin is right in half\.", guessed),
    (r"All reports of (?:any|the first) year: whoever guesses from them which of two equally likely lists of answers is yours is right in at most (?P<right>[\d,]+) of (?P<of>[\d,]+) cases\.(?: Later years can add to it\.)?", plainly("a year's guess")),
    (r"All reports of the first year: there is no known limit to what they tell: .*", plainly("no limit")),
    # how many there are
    (r"\w+: (?P<reports>[\d,]+) reports?(?: (?:of|from) (?P<distinct>\d+) (?:distinct value|noisy answer)s?)?", plainly("number of reports")),
    (r"reports queued \| (?P<reports>\d+)", plainly("number of reports")),
    (r"Every report is drawn from one of these noisy answers, and a value that returns uses the same one again\. No value is stored\.", plainly("one answer")),
    (r"of its panel, this device is asked next in: (?:(?P<period>\d+ \w+ \d+) \(\w+\)|no period before the end)", plainly("asked next")),
    # what puts reports together
    (r"What could put a device's reports together \| (?P<words>.*)", linkable),
    (r"Linkable: (?P<words>.*)\.", linkable),
    (r"Reports carry no name, and the collector keeps no address; (?P<words>.*)\. If somebody linked them, and the value had not changed, they would tell more together:", linkable),
    (r"Reports carry no name, but they can be put together without one: (?P<words>.*)\. If somebody linked them, and the value had not changed, they would tell more together:", linkable),
    # budgets
    (r"All reports together may cost epsilon (?P<most>[\d.,]+), whatever you hold and however it changes; then no more are made\.", plainly("budget")),
    # publication and retention
    (r"Published \| everybody can read the estimates of a period once it takes no more reports, if at least (?P<least>[\d,]+) came", plainly("published")),
    (r"Estimated from (?P<reports>[\d,]+) reports of (?P<period>[\w ]+), one per device(?: \(.*\))?\. An estimate can be below zero, because the noise is subtracted\. An answer that is not detected was given by nobody, or by too few to tell them from noise; one that nobody gave can be detected by chance: on average, that is at most 5% of the detected answers\.", plainly("estimated")),
    (r"Kept for \| randomized reports: (?P<days>\d+) days; then only counts of (?P<fewest>\d+) or more reports together; a report that comes .* is (?:still|not) counted", plainly("kept")),
    # changes of a registry
    (r"weakens-privacy \| .*: all reports of (?:one value|it) cost (?P<total>[\d.,]+|without bound) together, where [\d.,]+ was promised(?:; .*)?", plainly("both together")),
    (r"weakens-privacy \| .*", plainly("weakens")),
    (r"no promise is weakened, no stored count is broken", plainly("nothing weakened")),
    (r"theme: its stored counts cannot be continued under this id", plainly("nothing weakened unless said")),
    # shuffled reports
    (r"Shuffled among (?P<number>[\d,]+) honest reports, 1 report of a person: epsilon (?P<epsilon>no bound|[\d.,]+) at delta (?P<delta>[\de.-]+)\. It rests on this:", plainly("shuffled")),
    (r"Nobody knows the person's cohort, which is in every report\. To somebody who does, her reports reveal epsilon (?P<epsilon>no bound|[\d.,]+)(?:: only the [\d,]+ or so of that cohort hide hers\.| at the same delta: only reports of that cohort hide hers, and .*)", plainly("known cohort")),
)  # fmt: skip

PLAIN = (
    r"Reports by earlier parameters were drawn from these noisy answers; those of now have fresh noise\. No value is stored\.",
    r"harmless \| panel: .* becomes .*: what any year tells, epsilon (?:[\d.,]+|no bound|without bound) becomes [\d.,]+",
    r"\[\d+\] .*",  # a note of a table: what an epsilon rests on
    r"T \(\w+\)|Another title \(\w+\)|the registry",
    r"(?:Why|Responsible|Ends on|How|How often|How many values|What a report can be about) \| .*",
    r"noisy answers \| .*",
    r"what is seen of one device \| epsilon \| odds move \| rests on",
    r"(?:value \| before \| after|value \| count \| 95% interval \| share \| 95% interval \| p(?: \| .*)?|response \| .*)",
    r"[^|]+ \| (?:below )?[\d.,]+% \| (?:above )?(?:below )?[\d.,]+%",  # what an attacker believes, before and after
    r"(?:red|green|blue) \| -?[\d,]+ \| -?[\d,]+ to -?[\d,]+ \| -?[\d.,]+% \| -?[\d.,]+% to -?[\d.,]+% \| [\de.+-]+ \| (?:not )?detected",  # an estimate
    r"[01]+|\d+ \| .* \| \d+ \| \d+",  # bits; a permanent response, what it says, and how often it was reported
    r"What (?:\d|[\d,]+) reports? can tell of you:|What your [\d,]+ reports? so far can have told of you:",
    r"There is no budget: reports go on until each metric's end, and add up\.",
    r"(?:reports go to|state|on|off|local|not asked about yet, so not recorded|you agreed on \S+ to): .*",
    r"(?:waiting|dropped|last sent in|problem|note|asked by|to stop|the rest): .*|- (?:T|Another title)(?:: .*|, since your choice of .*)",
    r"Since your choice of \S+: .*|asked about again, so not recorded until you choose: .*",
    r"What \w+ sends from this device|Recorded: \w+|Permanent responses: \w+|The permanent responses of this device",
    r"In (?:\d+ periods, the last \d+ of them: )?[\w; ]+\. True values are not kept\.|Nothing was recorded\.",
    r"Exactly what was or will be sent: \w+|The newest 0 of \d+ reports that are kept to be shown\.",
    r"From the newest report alone: .*, so there is nothing to compare\.",
    r"What the collector could infer: \w+|From the newest report alone(?:: the \d+ likeliest of [\d,]+ values)?|From all kept reports(?: of that (?:value|noisy answer))?, linked.*",
    r"Nothing of this was sent: this is what would be known if it were\.",
    r"Privacy spent: \w+|Privacy, planned: \w+",
    r"After [\d,]+ reports? of \w+, were it alone, this application stops reporting it by itself\.",
    r"harmless \| registry: version \S+ becomes \S+",
    r"harmless \| (?:title|publish|window|groups|expires|retention_days|max_values|over_cap|max_values and over_cap|grace_days|candidates): .*",
    r"breaks-counts \| .*|\w+ needs a new metric id: people agreed to less",
    r"overstory: error: .*",  # it refuses to say anything
    r"\w+: (?:T|Another title), (?:one report every|at most|\d+ answers? a) .*|[\w-]+: (?:domain_size|epsilon|num_|f|of|grr|max_values).*",
    r"A liar's report counts for up to [\d.,]+ honest ones of a value\.",
    r"What is sent in clear \| .*",
    # what a claim of shuffled reports rests on
    r"In each period the reports arrive as one batch, .*",
    r"All [\d,]+ reports are of honest devices: .*|[\d,]+ of the [\d,]+ reports are honest: .*",
    r"Reports of one device that travel together, .*|The collector's own shuffle of stored reports does not count: .*",
    r"The bound of any mechanism of this epsilon: this one's own is not computed\.",
    r"A report has a cohort or seed, which perhaps no other device has: once somebody knows hers, .*",
    # the public page
    r"Results|What it costs a person|How to stop it",
    r"No period is published now\. .* is next, on .* UTC, if at least [\d,]+ reports of it came\.",
    r"Results are not published\.|All that is collected|Turn it off in the settings\.|Why: .*",
    r"Intervals: .*|Detected: \d+ of \d+",
    r"(?:red|green|blue)(?:, (?:red|green|blue))*|Share of each answer in .*",
)

READERS = tuple((re.compile(pattern), reader) for pattern, reader in JUDGED)
KNOWN = tuple(map(re.compile, PLAIN))


@cache
def read(line):
    """Return what a printed line claims.

    Raises
    ------
    UnknownSentenceError
        When it seems to promise something, and no entry knows its form.
    """
    for pattern, reader in READERS:
        found = pattern.fullmatch(line)
        if found:
            return tuple(reader(found))
    if any(pattern.fullmatch(line) for pattern in KNOWN) or not PROMISING.search(line):
        return ()
    raise UnknownSentenceError(line)
