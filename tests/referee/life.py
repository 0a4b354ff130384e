"""The referee: lives a story, reads every sentence that is printed on the way, and says which of them are lies.

A device's life is lived twice: by a real client on a real state, whose pages and commands print the sentences, and by
the model (`model.py`), which knows what an observer can tell apart. The observers are the collector, who sees every
report with its cohort and its group; somebody who knows a person's cohort; a reader of the public page who polls it;
whoever has the store after retention; and a reader of a relay's releases who knows some of the messages.

A sentence is held against the truth as it is worded (`sentences.py` says what each form means). It lies when the truth
is above what it says, whatever a footnote elsewhere may add.
"""

import math
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy import select

from overstory.client import Client
from overstory.client.outcomes import MADE, Outcome
from overstory.client.state.secret_file import DeviceSecret
from overstory.client.state.state import State
from overstory.collector.store import open_store
from overstory.collector.store.counts import unpack_counts
from overstory.collector.store.schema import COUNTS
from overstory.privacy.registry.page import how_long_kept
from overstory.protocol.metrics import Metric
from referee import model, surfaces
from referee.model import METRICS, step, truth
from referee.sentences import read
from referee.stories import Story, honest_share
from referee.worlds import AGREED, METRIC, WORLDS, World, metric, registry
from support.devices import DAY, Clock
from support.store_samples import received, reports

NEAR = 1e-9
MILLION = 1_000_000
FEWEST_IN_A_CELL = 10  # past retention a public coordinate of reports has so many of them, or none
FEWEST_PUBLISHED = 100
"""A public page has so many reports, and two pages of one period differ by as many, or say the same."""
DELTA = 1e-6


@dataclass(frozen=True)
class Lie:  # a sentence that is not true, what is, and the name of the way in which it is not
    way: str
    line: str
    truth: str

    def __str__(self):
        return f"[{self.way}] {self.line}\n    truth: {self.truth}"


@dataclass
class Scene:  # what is the case when sentences are read
    world: World
    in_force: Metric
    steps: tuple[bytes, ...] = ()  # the metric of each report so far
    history: tuple[Any, ...] = ()  # the value of each report so far
    is_life: bool = False  # whether the sentences are about the device of the story; else about the parameters
    budget: float = math.inf  # what the person was told that all reports may cost
    asked_next: str = ""  # the period in which the device is said to be asked next

    @property
    def values(self):
        return self.world.values

    @property
    def longest(self):
        return 1 if self.in_force.mechanism.once else model.longest(self.values)


def judge(lines, scene):
    for line in lines:
        for claim in read(line):
            judges = JUDGES.get(claim.about)
            if judges is not None:
                yield from judges(claim, scene)


# --- epsilons ---------------------------------------------------------------------------------------------------------


def about_epsilon(claim, scene):
    """Hold an epsilon against the worst two histories that meet its condition."""
    made = len(scene.steps)
    if claim.so_far and claim.reports != made:
        yield Lie("number", claim.line, f"{made} reports were made")
        return
    if claim.more.get("only") and claim.reports != 1:
        yield Lie("only one", claim.line, f"there were {claim.reports}")
    true = of_a_budget(scene) if claim.more.get("ends") else of_reports(claim, scene, claim.condition)
    if too_low(claim, true):
        other = of_reports(claim, scene, "responses") if claim.condition == "values" else true
        yield Lie("accounts" if too_low(claim, other) else "pattern", claim.line, f"epsilon {true:.6f}")
    if claim.so_far and claim.condition == "any" and claim.epsilon > scene.budget + NEAR:
        yield Lie("budget", claim.line, f"all reports together may cost {scene.budget}, and no more were made")


def too_low(claim, true):
    moved = true < 700 and claim.odds < math.exp(true) * (1 - NEAR)
    return claim.epsilon < true - NEAR or moved


def of_reports(claim, scene, condition):
    """Return the truth about the reports that a claim is about; of many, of as many as are enumerated."""
    force, most = step(scene.in_force), scene.longest
    about = {"distinct": claim.distinct, "spare": claim.spare}
    if not scene.is_life or not scene.steps:
        steps = (force,) * min(claim.reports or most, most)
        return truth(steps, scene.values, condition, ever=claim.reports is None, **about)
    if claim.reports is None and claim.in_force:
        return truth((force,) * most, scene.values, condition, ever=True, **about)
    if claim.reports is None:  # the reports so far, and whatever comes
        more = (force,) * max(most - len(scene.steps), force not in scene.steps)
        steps = shortest(scene.steps + more, most)
        return truth(steps, scene.values, condition, ever=True, **about)
    if claim.reports == 1 and not claim.so_far:
        under = (force,) if claim.in_force else dict.fromkeys((*scene.steps, force))
        return max(truth((each,), scene.values, condition) for each in under)
    if claim.reports == len(scene.steps):
        return truth(scene.steps, scene.values, condition, **about)
    return truth((force,) * min(claim.reports, most), scene.values, condition, **about)


def of_a_budget(scene):
    """Return the truth about all reports of a device that keeps to the budget, and about those of this life."""
    kept = (step(scene.in_force),) * reports_in_the_budget(*PLACES[scene.in_force.digest, scene.in_force.title])
    return max(truth(steps, scene.values, "any") for steps in (kept, scene.steps))


@cache
def reports_in_the_budget(world, name):
    """Return how many reports a real client makes at most until its budget is used up, or as many as are enumerated."""
    of, most = WORLDS[world], model.longest(WORLDS[world].values)
    made = []
    for values in (*((value,) * most for value in of.values), (of.values * most)[:most]):
        clock = Clock()
        with tempfile.TemporaryDirectory(prefix="budget-") as folder:
            about = {"registry": registry(world, name), "state": Path(folder, "s"), "policy": Path(folder, "none")}
            with Client("t", clock=clock, environ={}, spread=0, **about) as client:
                client.consent("on")
                made.append(0)
                for value in values:
                    made[-1] += client.record(METRIC, value) in MADE
                    clock.tomorrow()
    return max(made)


def shortest(steps, most):
    """Return at most so many steps, of every metric at least one: repeated ones are left out first."""
    kept = list(steps)
    while len(kept) > max(most, 1) and len(set(kept)) < len(kept):
        kept.remove(next(each for each in kept if kept.count(each) > 1))
    return tuple(kept[: max(most, 1) + 1]) if METRICS[kept[0]].mechanism.once else tuple(kept[-max(most, 1) :])


def about_number(claim, scene):
    if not scene.is_life:
        return
    if int(claim.more["reports"].replace(",", "")) != len(scene.steps):
        yield Lie("number", claim.line, f"{len(scene.steps)} reports were made")
    metrics = [METRICS[each] for each in scene.steps]
    if "distinct" in claim.more and all(metric.mechanism.num_cohorts == 1 for metric in metrics):
        answers = model.responses_of(metrics, scene.history)
        if int(claim.more["distinct"]) != answers:
            yield Lie("accounts", claim.line, f"the device has drawn {answers} permanent responses")


def about_one_answer(claim, scene):
    if scene.in_force.fresh:
        yield Lie("one answer", claim.line, "the noise of every report is fresh")


def about_budget(claim, scene):
    scene.budget = float(claim.more["most"])
    yield from ()


def about_asked_next(claim, scene):
    said = claim.more.get("period")
    scene.asked_next = datetime.strptime(f"{said} +0000", "%d %B %Y %z").date().isoformat() if said else "never"
    yield from ()


# --- what puts reports together ---------------------------------------------------------------------------------------


def constant_bits(of, group):
    """Return the bits that are the same in every report of a device: of one group where it is named, else of any."""
    bits = 0.0 if of.mechanism.once else math.log2(of.mechanism.num_cohorts)
    if of.groups is None:
        return bits
    shares = [of.groups.share(name) for name in of.groups.names]
    return bits + (model.collision_bits(shares) if group is None else -math.log2(of.groups.share(group)))


def payloads(of, values):
    """Return the distributions of what an unchanged value's reports say, where that is always the same."""
    mechanism = of.mechanism
    if of.fresh or mechanism.once or mechanism.epsilon_report < mechanism.epsilon_permanent:
        return []
    cohort = model.cohorts_of([mechanism])[0][0]
    return [model.payload_chances(of, value, cohort) for value in values if model.fits(of, value)]


def way_of_groups(scene):
    return "linkable" if scene.in_force.groups is None else "group"


def about_nothing_the_same(claim, scene):
    bits = constant_bits(scene.in_force, claim.more["group"])
    if bits > NEAR:
        yield Lie(way_of_groups(scene), claim.line, f"{bits:.2f} bits are in every report, in clear")


def about_the_same(claim, scene):
    if scene.in_force.mechanism.once:
        return
    always = constant_bits(scene.in_force, claim.more["group"])
    laws = payloads(scene.in_force, scene.values) if claim.more["unchanged"] else []
    bits = always + max((model.collision_bits(law) for law in laws), default=0.0)
    if claim.more["bits"] < bits - 1e-6:
        yield Lie(way_of_groups(scene), claim.line, f"{bits:.2f} bits")
    crowd = 1 + (MILLION - 1) * 2**-bits
    if claim.more["crowd"] > crowd + 1:
        yield Lie(way_of_groups(scene), claim.line, f"{crowd:,.0f} share it")
    elif not claim.more["alike"] and len(laws) > 1:
        others = min(float(one @ other) for one in laws for other in laws)
        crowd = 1 + (MILLION - 1) * others * 2**-always
        if claim.more["crowd"] > crowd + 1:
            yield Lie("crowd", claim.line, f"{crowd:,.0f} share it where all others hold another value")


def about_alike(claim, scene):
    of = scene.in_force
    cohort = model.cohorts_of([of.mechanism])[0][0]
    most = max(model.shared_bits(of, value, cohort) for value in scene.values if model.fits(of, value))
    bits = most + constant_bits(of, claim.more["group"])
    if claim.more["two"] < bits - 1e-6:
        yield Lie(way_of_groups(scene), claim.line, f"two share {bits:.2f} bits")


# --- changes of a registry --------------------------------------------------------------------------------------------


def judge_change(world, earlier, new, lines):
    """Yield the lies of `metrics diff` between the last of the earlier registries and a new one."""
    old = earlier[-1]
    claims = [claim for line in lines for claim in read(line)]
    for claim in claims:
        if claim.about == "both together":
            total = math.inf if "bound" in claim.more["total"] else float(claim.more["total"])
            accounts = {each.account: step(each) for each in (*earlier, new)}
            true = truth(tuple(accounts.values()), world.values, "unchanged", ever=True)
            if total < true - NEAR:
                yield Lie("change", claim.line, f"epsilon {true:.6f}")
    if any(claim.about in {"both together", "weakens"} for claim in claims):
        return
    yield from broken_promises(world, old, new, lines[-1] if lines else "nothing changed")


def broken_promises(world, old, new, line):
    """Yield what was promised of the old metric and is not kept, where the change is said to weaken nothing.

    A promise is a line that a person read before she agreed. It is broken where the reports of a device that goes from
    the old metric to the new one cost more, and where the same line of the new metric says more.
    """
    promised, now = (promises(each) for each in (old, new))
    most = min(model.longest(world.values), 3)
    for claim in promised.values():
        total = min(claim.reports or most, most)
        for first in range(total + 1):
            steps = (step(old),) * first + (step(new),) * (total - first)
            ever = claim.reports is None
            condition = "responses" if claim.condition == "values" else claim.condition
            about = {"ever": ever, "distinct": claim.distinct, "spare": claim.spare}
            true = truth(steps, world.values, condition, **about)
            before = truth((step(old),) * total, world.values, condition, **about)
            if claim.epsilon < true - NEAR and before <= claim.epsilon + NEAR:  # it was true until then
                yield Lie("weaker", f"{line}; promised: {claim.line}", f"epsilon {true:.6f}")
                return
    for kind, claim in now.items():
        if kind in promised and claim.epsilon > promised[kind].epsilon + NEAR:
            yield Lie("weaker", f"{line}; promised: {promised[kind].line}", f"now {claim.line}")
            return


def promises(of):
    """Return the lines of `metrics show` by condition, and whether they are about any number of reports."""
    world, name = PLACES[of.digest, of.title]
    claims = [claim for line in shown(world, name) for claim in read(line) if claim.about == "epsilon"]
    kinds = {}
    for claim in claims:
        if math.isfinite(claim.odds) or " | " in claim.line:
            one = claim.condition if claim.reports != 1 else "report"
            kinds[one, claim.reports is None] = claim
    return kinds


PLACES = {}


@cache
def shown(world, name):
    return surfaces.show(world, name)


@cache
def differences(world, earlier, new):
    return surfaces.diff(world, earlier, new)


@cache
def private(world, name, *options):
    return surfaces.privacy(world, name, *options)


# --- shuffled reports -------------------------------------------------------------------------------------------------


def judge_release(world, of, number, known, lines):
    """Yield the lies about one person's reports among a release of so many messages, of which the reader knows some."""
    share = honest_share(number, known)
    honest = math.floor(number * share)
    claimed = 0
    for line in lines:
        for claim in read(line):
            epsilon = claim.more.get("epsilon", "")
            if claim.about == "shuffled":
                claimed, delta = int(claim.more["number"].replace(",", "")), float(claim.more["delta"])
                if claimed > honest:
                    yield Lie("shuffled", line, f"{honest} messages are of others than the reader's friends")
                if epsilon != "no bound" and of.mechanism.num_cohorts == 1:
                    crowd = claimed if of.groups is None else rarest(of, claimed)
                    true = model.shuffled_delta(step(of), world.values, max(crowd - 1, 0), float(epsilon))
                    if true > delta * (1 + 1e-6):
                        yield Lie("shuffled" if of.groups is None else "shuffled group", line, f"delta {true:.3g}")
            if claim.about == "known cohort" and epsilon != "no bound" and claimed:
                crowd = claimed // of.mechanism.num_cohorts
                crowd = crowd if of.groups is None else rarest(of, crowd)
                true = model.shuffled_delta(step(of), world.values, max(crowd - 1, 0), float(epsilon))
                if true > DELTA * (1 + 1e-6):
                    yield Lie("known cohort", line, f"delta {true:.3g}")


def rarest(of, number):
    assert of.groups is not None
    return math.floor(number * min(share for share in map(of.groups.share, of.groups.names) if share > 0))


JUDGES = {
    "epsilon": about_epsilon,
    "number of reports": about_number,
    "one answer": about_one_answer,
    "budget": about_budget,
    "asked next": about_asked_next,
    "nothing the same": about_nothing_the_same,
    "nothing equal": about_nothing_the_same,
    "the same": about_the_same,
    "alike": about_alike,
}
"""By what a claim is about. Publication and retention are judged where they happen, changes and releases likewise."""


# --- a device's life --------------------------------------------------------------------------------------------------


class Person:  # a device and the person who reads what it prints
    def __init__(self, story, folder):
        self.story, self.folder, self.world = story, folder, WORLDS[story.world]
        self.clock, self.group = Clock(), "1.0"
        self.lies = []
        self.names = [AGREED]
        self.client = self.begin(AGREED)
        self.scene = Scene(self.world, metric(story.world, AGREED), is_life=True)

    def begin(self, name):
        PLACES.setdefault(
            (of := metric(self.story.world, name)).digest and (of.digest, of.title), (self.story.world, name)
        )
        groups = {} if of.groups is None else {of.groups.by: self.group}
        return Client(
            "t",
            registry=registry(self.story.world, name),
            state=self.folder / "state",
            clock=self.clock,
            environ={},
            policy=self.folder / "none",
            groups=groups,
            spread=0,
        )

    def live(self):
        root = bytes([self.story.seed]) * 32
        with mock.patch.object(DeviceSecret, "fresh", return_value=DeviceSecret.of_root(root)):
            self.agree()
            for event, *given in self.story.events:
                getattr(self, f"on_{event}")(*given)
            self.on_look()
            self.client.close()
        self.hear(shown(self.story.world, self.names[-1]), Scene(self.world, self.scene.in_force))
        return self.lies

    def hear(self, lines, scene=None):
        self.lies += judge(lines, scene or self.scene)

    def agree(self):
        self.hear(surfaces.asks(self.client, self.clock()))
        self.client.consent("on")

    def on_value(self, number):
        outcome, said = self.client.record(METRIC, self.world.values[number]), self.scene.asked_next
        if outcome in MADE:
            self.counts(number)
        self.client.flush()
        period = self.scene.in_force.period
        today = period.label(period.number(self.clock()))
        if (said and outcome in MADE and today < said) or (outcome is Outcome.UNASKED and today == said):
            self.lies.append(Lie("asked next", f"this device is asked next in: {said}", f"{today}: {outcome}"))
        self.clock.tomorrow()

    def counts(self, number):
        self.scene.steps += (step(self.scene.in_force),)
        self.scene.history += (self.world.values[number],)

    def on_restored(self, number):
        """Make a report, put the state of before back, make it again: the same bytes, or the collector has two."""
        state, backup = self.folder / "state", self.folder / "backup"
        if not (state / "state.db").exists():
            self.on_value(number)
            return
        self.client.close()
        shutil.copytree(state, backup)
        sent = [self.sends_again(number)]
        shutil.rmtree(state)
        backup.rename(state)
        sent.append(self.sends_again(number))
        self.client = self.begin(self.names[-1])
        if sent[0] is not None:
            self.counts(number)
        if sent[0] != sent[1]:
            self.lies.append(Lie("restored", "one report a period", "a state that went back sends another one"))
        self.clock.tomorrow()

    def sends_again(self, number):
        """Return the bytes of the report that is made now; None where none is made."""
        with self.begin(self.names[-1]) as client:
            if client.record(METRIC, self.world.values[number]) not in MADE:
                return None
        with State(client.paths).snapshot() as rows:
            return max(rows.outbox.rows(METRIC), key=lambda row: row.period).body

    def on_silent(self):
        self.clock.tomorrow()

    def on_registry(self, name):
        earlier = [metric(self.story.world, each) for each in self.names]
        new = metric(self.story.world, name)
        self.client.close()
        self.client = self.begin(name)
        if name != self.names[-1]:
            had = tuple(dict.fromkeys(reversed(self.names)))[::-1]  # each where it was last
            lines = differences(self.story.world, had, name)
            self.lies += judge_change(self.world, earlier, new, lines)
        self.names.append(name)
        self.scene.in_force, self.scene.asked_next = new, ""
        self.agree()

    def on_off(self):
        self.client.consent("off")

    def on_on(self):
        self.client.consent("on")

    def on_group(self, name):
        self.client.close()
        self.group = name
        self.client = self.begin(self.names[-1])

    def on_look(self):
        self.hear(surfaces.status(self.client))
        self.hear(surfaces.view(self.client))

    def on_relay(self, number, known):
        share = honest_share(number, known)
        options = ["--shuffled", number, "--delta", DELTA, "--honest", min(share, 1.0)]
        lines = private(self.story.world, self.names[-1], *options)
        self.hear(lines, Scene(self.world, self.scene.in_force))
        self.lies += judge_release(self.world, self.scene.in_force, number, known, lines)


# --- a crowd's life ---------------------------------------------------------------------------------------------------


@dataclass
class Crowd:  # many devices, the collector's store, and the public page
    story: Story
    folder: Path
    arrived: dict[int, int] = field(default_factory=dict)  # reports by period
    bodies: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)  # by period, what the page said
    judged_cells: int = 0  # cells past retention that were looked at

    def live(self):
        self.of = metric(self.story.world, AGREED)
        self.clock, self.lies = Clock(), []
        self.rng = random.Random(self.story.seed)
        known = registry(self.story.world, AGREED)
        with open_store(str(self.folder / "store.db"), known, create=True) as self.store:
            self.page = surfaces.Page(known, self.store, self.clock)
            for event, *given in self.story.crowd:
                getattr(self, f"on_{event}")(*given)
        return self.lies

    def on_arrive(self, ago, number, group):
        period = self.of.period.number(self.clock()) - ago
        if self.clock() >= self.of.accept_until(period):
            return
        batch = received(self.of, period, reports(self.of, number, self.rng))
        if self.of.groups is not None:
            batch = batch._replace(group=self.of.groups.names[group])
        self.store.add([batch])
        self.arrived[period] = self.arrived.get(period, 0) + number

    def on_days(self, number):
        self.clock.tomorrow(number)

    def on_poll(self):
        """Look at the public page: two pages of one period must not tell single reports apart."""
        self.store.compact(self.clock())
        lines, figures = self.page.poll()
        claims = [claim for line in lines for claim in read(line)]
        scene = Scene(WORLDS[self.story.world], self.of)
        self.lies += judge(lines, scene)
        promised = next((claim.line for claim in claims if claim.about == "published"), "the public page")
        for claim in claims:
            if claim.about != "estimated":
                continue
            number, period = int(claim.more["reports"].replace(",", "")), claim.more["period"]
            if number < FEWEST_PUBLISHED:
                self.lies.append(Lie("public", promised, f"the estimates of {period} are of {number} reports"))
            for before, said in self.bodies.get(period, []):
                if said != figures and abs(number - before) < FEWEST_PUBLISHED:
                    text = f"two pages of {period} differ by {abs(number - before)} reports"
                    self.lies.append(Lie("public", promised, text))
            self.bodies.setdefault(period, []).append((number, figures))

    def on_retain(self):
        """Delete what is past retention: of what stays, no public coordinate may have few reports."""
        now = self.clock()
        self.store.compact(now)
        self.store.retain(now)
        last = self.of.period.number(now - self.of.retention_days * DAY) - 1
        promise = f"Kept for | randomized reports: {how_long_kept(self.of)}"
        with self.store._database.snapshot() as connection:
            rows = connection.execute(select(COUNTS).where(COUNTS.c.period <= last)).all()
        for row in rows:
            cells = [int(total) for total in unpack_counts(bytes(row.counts)).totals]
            self.judged_cells += len(cells)
            few = [total for total in cells if 0 < total < FEWEST_IN_A_CELL]
            if few:
                self.lies.append(
                    Lie("kept", promise, f"{len(few)} of {len(cells)} cells of a period have {min(few)} reports")
                )
                return


def lies(story):
    with tempfile.TemporaryDirectory(prefix="story-") as name:
        found = Person(story, Path(name)).live()
        if story.crowd:
            found += Crowd(story, Path(name)).live()
    return list(dict.fromkeys(found))
