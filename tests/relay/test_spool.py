"""The spool: what is acknowledged is there, what is half-written is not, and nothing says when or in which order."""

import random
import struct
import tracemalloc
from array import array

import pytest
from scipy.stats import spearmanr

from overstory.protocol.errors import FormatError
from overstory.relay import spool
from overstory.relay.spool import DATA, SLOT, Rules, SlotFile, Spool, Taken, slots_of
from overstory.supervision.clock import ClockWatch
from support.relays import StagedRelay, message, put

RULES = Rules(least=10, per_release=10)


@pytest.fixture(autouse=True)
def _no_file_stays_open(monkeypatch):
    made, begin = [], SlotFile.__init__

    def begin_and_remember(self, path):
        made.append(self)
        begin(self, path)

    monkeypatch.setattr(SlotFile, "__init__", begin_and_remember)
    yield
    for one in made:
        one.close()


@pytest.fixture
def file(tmp_path):
    SlotFile.create(tmp_path / "file", 300, 0)
    return tmp_path / "file"


def contents(opened):
    return sorted(opened.read(head) for head in opened.heads)


def test_wiped_messages_are_zeros_and_their_slots_are_used_again(file):
    opened = SlotFile(file)
    for _ in range(5):
        opened.add([message(n, 65536) for n in range(4)])
        opened.wipe(opened.heads)
        opened.heads = opened.heads[:0]
        assert set(file.read_bytes()[SLOT:]) == {0}


def test_a_damaged_slot_loses_its_message_and_no_other(file):
    opened = SlotFile(file)
    messages = [message(n, 1500) for n in range(8)]
    opened.add(messages)
    opened.close()
    raw = file.read_bytes()
    used = [at for at in range(1, 301) if raw[at * SLOT : (at + 1) * SLOT] != bytes(SLOT)]
    assert len(used) == 16
    for at in random.Random(1).sample(used, 4):
        for offset in (0, 16, 17, 21, 25, 33, 500):
            altered = bytearray(raw)
            altered[at * SLOT + offset] ^= 1
            file.write_bytes(altered)
            left = contents(SlotFile(file))
            assert len(left) == 7, "that message is gone"
            assert set(left) < set(messages)
            assert file.read_bytes().count(bytes(SLOT)) >= 300 - 14, "and nothing of it remains"


def test_a_slot_moved_to_another_place_is_not_taken_for_a_message(file):
    opened = SlotFile(file)
    opened.add([message(1)])
    head = opened.heads[0]
    opened.close()
    raw = bytearray(file.read_bytes())
    elsewhere = head % 300 + 1
    raw[elsewhere * SLOT : (elsewhere + 1) * SLOT] = raw[head * SLOT : (head + 1) * SLOT]
    file.write_bytes(raw)
    assert len(SlotFile(file).heads) == 1


def test_a_clock_is_trusted_after_an_even_hour_and_not_followed_where_it_then_jumps():
    wall, even = 1_800_000_000.0, 0.0
    watch = ClockWatch(lambda: wall, lambda: even)
    assert (watch.read(), watch.trusted, watch.jumped) == (1_800_000_000.0, False, False)
    wall, even = wall + 3601, even + 3601
    assert (watch.read(), watch.trusted) == (1_800_003_601.0, True)
    wall, even = wall + 86_400, even + 9
    assert (watch.read(), watch.trusted, watch.jumped) == (1_800_003_610.0, False, True)
    wall, even = wall + 3600, even + 3600
    assert (watch.read(), watch.trusted, watch.leapt) == (1_800_093_601.0, True, 86_391.0)


SIZES = (55, 55, 567, 567, 567, 1079, 3000, DATA - 1, DATA, DATA + 1, 2 * DATA, 65536)


def test_after_any_sequence_of_steps_the_messages_are_those_that_were_added_and_not_wiped(file):
    draws, opened, expected = random.Random(5), SlotFile(file), []
    assert [slots_of(bytes(size)) for size in (567, 65536)] == [1, 67]
    for serial in range(400):
        step = draws.choice(("add", "add", "add", "wipe", "open"))
        if step == "add":
            new = [message(serial, draws.choice(SIZES)) for _ in range(draws.randrange(1, 12))]
            room = len(opened._free)
            for one, fits in zip(new, opened.add(new), strict=True):
                assert fits == (slots_of(one) <= room), "what does not fit keeps no other out"
                room -= slots_of(one) * fits
                expected += [one] * fits
        elif step == "wipe":
            left = draws.sample(opened.heads, draws.randrange(len(opened.heads) + 1))
            gone = [head for head in opened.heads if head not in left]
            expected = [opened.read(head) for head in left]
            opened.wipe(gone)
            opened.heads = array("I", left)
        else:
            opened.close()
            opened = SlotFile(file)
        assert contents(opened) == sorted(expected)
        assert len(opened._free) == 300 - sum(map(slots_of, expected))
        assert len(set(opened._free)) == len(opened._free)


@pytest.mark.parametrize("spoil", [lambda raw: raw[:-1], lambda raw: b"X" + raw[1:], lambda raw: b""])
def test_what_is_no_spool_is_refused_by_name(file, spoil):
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(FormatError, match="no spool of a relay"):
        SlotFile(file)


def positions(raw, messages):
    return [raw.index(one) for one in messages]


# |rho| of n ranks in random order exceeds 5.3 / sqrt(n - 1) in about one run in 10^7.
FAR = 5.3


def shows_order(places):
    return abs(spearmanr(range(len(places)), places).statistic) > FAR / (len(places) - 1) ** 0.5


def test_places_on_disk_say_nothing_of_the_order_of_arrival(tmp_path):
    with_spool = Spool(tmp_path / "spool", 1500)
    messages = [message(n) for n in range(1000)]
    for start in range(0, 1000, 7):
        put(with_spool, messages[start : start + 7])
    raw = (tmp_path / "spool" / spool.WAITING).read_bytes()
    assert not shows_order(positions(raw, messages))
    keys = [raw[at - 33 : at - 17] for at in positions(raw, messages)]
    assert not shows_order([int.from_bytes(key, "big") >> 64 for key in keys])
    assert shows_order(positions(b"".join(messages), messages)), "a file that is appended to shows it"


def test_the_same_draws_at_other_times_are_the_same_bytes(tmp_path, monkeypatch):
    """So no byte of the files is a time of arrival."""
    written = []
    for day in (0, 5):
        draws = random.Random(7)
        monkeypatch.setattr(spool.secrets, "randbelow", draws.randrange)
        monkeypatch.setattr(spool.secrets, "token_bytes", draws.randbytes)
        clock = [1e9]
        opened = Spool(
            tmp_path / str(day), 50, clock=ClockWatch(lambda clock=clock: clock[0], lambda clock=clock: clock[0])
        )
        for n in range(20):
            clock[0] += day * 86400 + n
            put(opened, [b"\x01" * 100 + struct.pack(">I", n)])
        opened.close()
        written.append({path.name: path.read_bytes() for path in (tmp_path / str(day)).iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {"lock", spool.WAITING}


def test_the_file_s_times_do_not_stay_those_of_the_last_message(tmp_path):
    opened = Spool(tmp_path / "spool", 50, RULES)
    put(opened, [message(1)])
    path = tmp_path / "spool" / spool.WAITING
    before = path.stat()
    opened.touch()
    assert path.stat().st_ctime_ns > before.st_ctime_ns
    assert path.stat().st_size == before.st_size == 51 * SLOT, "nor does its size say how many wait"


def test_a_release_keeps_its_id_and_its_messages_and_others_wait(tmp_path):
    opened = Spool(tmp_path / "spool", 50, RULES)
    first = [message(n) for n in range(10)]
    put(opened, first)
    opened.seal()
    identity, _ = opened.release
    put(opened, [message(99)])
    opened.close()
    again = Spool(tmp_path / "spool", 50, RULES)
    assert (again.release[0], contents(again.release[1]), again.count) == (identity, sorted(first), 1)
    done = list(again.release[1].heads[:4])
    again.done(done, {"taken": 4})
    again.close()
    last = Spool(tmp_path / "spool", 50, RULES)
    assert (last.release[0], len(last.release[1].heads)) == (identity, 6)
    last.done(last.release[1].heads, {"taken": 5, "refused: damaged": 1})
    last.finish()
    assert last.totals == {"releases": 1, "taken": 5, "refused: damaged": 1}
    assert sorted(path.name for path in (tmp_path / "spool").iterdir()) == ["lock", "waiting.slots"]
    assert not any(one in path.read_bytes() for one in first for path in (tmp_path / "spool").iterdir())


@pytest.mark.parametrize("step", ["create", "first rename", "second rename"])
def test_a_crash_at_any_step_of_a_release_loses_nothing(tmp_path, step):
    opened = Spool(tmp_path / "spool", 50, RULES)
    messages = [message(n) for n in range(10)]
    put(opened, messages)

    class CrashError(Exception):
        pass

    renames = []

    def rename(path, target):
        renames.append(path)
        if len(renames) == (1 if step == "first rename" else 2):
            raise CrashError
        path.replace(target)

    with pytest.MonkeyPatch.context() as crashing:
        if step == "create":
            crashing.setattr(SlotFile, "create", lambda *_: (_ for _ in ()).throw(CrashError))
        else:
            crashing.setattr(type(tmp_path), "rename", rename)
        with pytest.raises(CrashError):
            opened.seal()
    opened.close()
    again = Spool(tmp_path / "spool", 50, RULES)
    waiting = [again._waiting.read(head) for head in again._waiting.heads]
    released = [] if again.release is None else contents(again.release[1])
    assert sorted(waiting + released) == sorted(messages)
    assert (again.release is not None) == (step == "second rename")
    assert not (tmp_path / "spool" / spool.NEXT).exists()


def test_what_one_address_has_is_on_the_disk_also_after_a_write_that_failed(tmp_path, monkeypatch):
    opened = Spool(tmp_path / "spool", 50, Rules(least=10, per_release=5))
    assert opened.put([b"1"], [b"a"]) == [Taken.STORED]
    with monkeypatch.context() as full:
        full.setattr(SlotFile, "_write", no_space)
        with pytest.raises(OSError, match="no space"):
            opened.put([b"2"], [b"a"])
    assert opened.put([b"3", b"4"], [b"b", b"b"]) == [Taken.STORED] * 2
    opened.close()
    assert Spool(tmp_path / "spool", 50, Rules(least=10, per_release=5)).most_of_one == 2


def no_space(*args):
    raise OSError("no space")


def test_a_message_that_one_sender_may_have_and_does_not_fit_is_no_message_too_many(tmp_path):
    opened = Spool(tmp_path / "spool", 1, Rules(least=10, per_release=1))
    assert opened.put([b"1"], [b"a"]) == [Taken.STORED]
    assert opened.put([b"2"], [b"a"]) == [Taken.ENOUGH]
    assert opened.put([b"2", b"2"], [b"a", b"b"])[1] == Taken.FULL


def test_the_folder_and_its_files_are_for_their_owner_alone(tmp_path):
    Spool(tmp_path / "spool", 50, RULES).close()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "spool").iterdir()}
    assert modes == {"lock": 0o600, "waiting.slots": 0o600}
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700


def test_a_clock_that_was_ahead_keeps_nothing_back(tmp_path):
    relay = StagedRelay(tmp_path, RULES, now=2e9)
    relay.now = 1e9
    relay.restart()
    relay.now += 100
    assert relay.spool.age == 100


@pytest.mark.parametrize("before", [10.0, 7200.0], ids=["after a start", "once it was trusted"])
@pytest.mark.parametrize("days", [40, -40])
def test_a_clock_that_jumps_and_comes_back_drops_nothing_and_holds_nothing_back(tmp_path, days, before):
    relay = StagedRelay(tmp_path, Rules(least=10, every=86400.0, at_most=30 * 86400.0), now=1.8e9)
    relay.passing(before)
    put(relay.spool, [message(n) for n in range(9)])
    relay.leap = days * 86400.0
    for _ in range(5):
        relay.passing(1)
        assert not relay.spool.may_drop
        assert relay.spool.age == relay.spool.waited == pytest.approx(relay.now - 1.8e9, abs=2)
    relay.leap = 0.0
    relay.passing(3600)
    assert relay.spool.age == relay.spool.waited == pytest.approx(relay.now - 1.8e9, abs=2)
    relay.restart()
    assert relay.spool.age == pytest.approx(relay.now - 1.8e9, abs=4), "and after a restart"
    relay.passing(30 * 86400.0)
    assert relay.spool.may_drop


def test_a_clock_that_is_set_right_for_good_moves_the_times_of_what_waits(tmp_path):
    relay = StagedRelay(tmp_path, RULES)  # a machine without a battery begins in 1970
    put(relay.spool, [message(1)])
    relay.leap = 1.8e9
    relay.spool.observe()
    assert (relay.spool.age, relay.spool.waited) == (0, 0)
    relay.restart()
    assert (relay.spool.age, relay.spool.waited) == (0, 0)


def test_the_first_hour_after_a_start_drops_nothing(tmp_path):
    relay = StagedRelay(tmp_path, RULES, now=1.8e9)
    put(relay.spool, [message(1)])
    relay.now += 40 * 86400.0
    relay.restart()
    assert relay.spool.waited == 40 * 86400.0
    assert not relay.spool.may_drop
    relay.passing(3600)
    assert relay.spool.may_drop, "the clock has run evenly for an hour"


@pytest.mark.slow
def test_memory_is_bounded_with_a_hundred_thousand_messages_of_as_many_senders(tmp_path):
    opened = Spool(tmp_path / "spool", 110_000)
    tracemalloc.start()
    for _ in range(100):
        put(opened, [message(n) for n in range(1000)])
    opened.seal()
    assert len(opened.release[1].heads) == 100_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 26e6, "about 220 bytes for each: a hash of the message, and of its sender with a number"
