"""Commands as people write them: in another language, in any order, slow, silent, broken, without end."""

import shlex
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from overstory.audit.answers import OwnClient, Program, Questions, declare, fresh, read_answers, repeated
from overstory.audit.audit import Settings, audit
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.registry import mechanism
from support.audited_clients import SimulatedClient, small_rappor

AWK_CLIENT = Path(__file__).parents[2] / "examples" / "client.awk"
BASIC = declare(mechanism("basic-rappor", domain_size=8))
GRR = declare(mechanism("grr", domain_size=4, epsilon=1.0))


def python(script):
    return [sys.executable, "-c", script]


def problem(command, *, timeout=60.0, reports=1000):
    with pytest.raises((ParameterError, FormatError)) as caught:
        audit(GRR, Program(command, timeout), Settings(reports=reports))
    return str(caught.value)


def grr_client(body):
    """A client of GRR over four symbols; `body` writes its lines of reports."""
    return python(
        "import csv, random, sys\n"
        "draw, memo = random.SystemRandom(), {}\n"
        "rows = list(csv.DictReader(sys.stdin))\n"
        "def report(client, value):\n"
        "    if (client, value) not in memo:\n"
        f"        kept = draw.random() < {float(GRR.mechanism.channel.alpha)}\n"
        "        memo[client, value] = value if kept else draw.randrange(4)\n"
        "    return memo[client, value]\n"
        "made = [(row['client'], row['cohort'], report(row['client'], int(row['value']))) for row in rows]\n" + body
    )


WRITE = "print('client,cohort,irr')\nfor line in made: print(*line, sep=',')\n"


def test_the_client_in_awk_is_as_declared():
    assert shutil.which("awk")
    result = audit(BASIC, Program(["awk", "-f", str(AWK_CLIENT)]), Settings(reports=4000, alpha=1e-9))
    assert result.verdict == "no fault found", result.failed


@pytest.mark.parametrize(
    "body",
    [
        WRITE,
        (
            "made.sort(key=lambda line: line[0], reverse=True)  # clients backwards, each one's reports as they were\n"
            "print('note,irr,client,cohort')\nfor c, m, r in made: print('x', r, c, m, sep=',')\n"
        ),
        (
            "print('client,cohort,rappor', end='\\r\\n')\n"
            "for c, m, r in made: print(f'\"{c}\"', m, r, sep=',', end='\\r\\n')\n"
        ),
    ],
)
def test_columns_and_clients_may_have_any_order(body):
    result = audit(GRR, Program(grr_client(body)), Settings(reports=1000, alpha=1e-9))
    assert result.verdict == "no fault found", result.failed


def test_a_command_gets_the_values_and_nothing_else(tmp_path):
    """What it reads is a file of values that is not named, and what is not in it is not on its command line either."""
    seen = tmp_path / "seen"
    script = (
        f"import sys; text = sys.stdin.read(); open({str(seen)!r}, 'a').write(repr((sys.argv, text[:200])) + chr(10))\n"
    )
    problem(python(script))
    assert seen.read_text().startswith("(['-c'], 'client,cohort,value\\nc0,0,")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-client"], "the command no-such-client does not start: no such file or directory"),
        (python("import sys; sys.exit('no key')"), "left with 1; its last line on standard error: no key"),
        (python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)"), "was ended by signal 15"),
        (python("input()"), "wrote nothing: expected a header with client,cohort,irr and a report for each line"),
        (
            python("print('hello')"),
            "expected a header with client,cohort,irr; client, cohort, irr not found in 'hello'",
        ),
        (python("print('client,cohort,irr')"), "it has a header and no report; expected 1,000 reports"),
        (grr_client(WRITE.replace("in made", "in made[:-1]")), "client 'c999' has 1 line and 0 reports"),
        (grr_client(WRITE + "print('c0,0,1')"), "client 'c0' has 1 line and 2 reports"),
        (grr_client(WRITE.replace("c0", "x") + "print('zoe,0,1')"), "client 'zoe' has a report and was not asked"),
        (
            grr_client("made[7] = 'c7', 0, 4\n" + WRITE),
            "line 9, field irr: expected a whole number from 0 to 3, found '4'",
        ),
        (grr_client("made[7] = 'c7', 1, 2\n" + WRITE), "line 9, field cohort: expected a whole number from 0 to 0"),
        (grr_client("made[7] = 'c7', 0\n" + WRITE), "line 9: expected 3 fields, as in the header, found 2"),
    ],
)
def test_a_command_that_fails_is_one_clear_message(command, words):
    message = problem(command)
    assert words in message
    assert "\n" not in message


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path):
    pids = tmp_path / "pids"
    script = f'sleep 600 & echo "$$ $!" > {shlex.quote(str(pids))}; wait'
    message = problem(["sh", "-c", script], timeout=3.0)
    assert "has not ended after 3 seconds: give fewer --reports" in message
    until = time.monotonic() + 20
    while any(map(is_running, pids.read_text().split())):  # killed processes end when the system comes to it
        assert time.monotonic() < until
        time.sleep(0.05)


def is_running(pid):
    """Whether a process has not ended; one that has may wait for its parent to look."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_that_never_stops_writing_is_ended(monkeypatch):
    monkeypatch.setattr("overstory.audit.answers.LEAST_BYTES", 1 << 16)
    message = problem(python("while True: print('client,cohort,irr' * 100)"))
    assert "bytes for 1,000 lines: expected a report for each" in message


def test_a_cohort_that_was_not_given_is_pointed_out():
    script = grr_client("made = [(c, 1 - int(m), '0' * 32) for c, m, r in made]\n" + WRITE).copy()
    script[2] = script[2].replace("int(row['value'])", "0")
    declared = declare(mechanism("rappor", num_bits=32, num_cohorts=2))
    with pytest.raises(FormatError, match="give --own-cohorts if clients choose their cohorts"):
        audit(declared, Program(script), Settings(reports=1000))


@pytest.mark.parametrize("kind", ["bits", "subset", "numbers"])
def test_what_is_written_is_what_is_read(kind, tmp_path):
    declared = {
        "bits": small_rappor(),
        "subset": declare(mechanism("subset", domain_size=9, epsilon=1.0)),
        "numbers": declare(mechanism("olh", domain_size=9, epsilon=1.0)),
    }[kind]
    asked = fresh(declared, 500, np.random.default_rng(1), choose=False)
    client = SimulatedClient(1) if kind == "bits" else OwnClient()
    (answers,) = client.answer(declared, [asked])
    texts = (
        ["".join(map(str, row[::-1])) for row in answers.reports.tolist()]
        if declared.are_bits
        else answers.reports.tolist()
    )
    lines = [f"{name},{m},{text}" for name, m, text in zip(asked.names(), answers.cohorts, texts, strict=True)]
    path = tmp_path / "reports"
    path.write_text("\n".join(["client,cohort,irr", *lines]) + "\n")
    read = read_answers(path, asked, declared)
    assert np.array_equal(read.reports, answers.reports)
    assert np.array_equal(read.cohorts, answers.cohorts)
    for wrong in ("2" * 9 if kind == "subset" else "2" * 32, "9999999", "-1", "x"):
        path.write_text(
            "\n".join(["client,cohort,irr", *lines[:3], f"c3,{answers.cohorts[3]},{wrong}", *lines[4:]]) + "\n"
        )
        with pytest.raises(FormatError, match="line 5, field irr: expected"):
            read_answers(path, asked, declared)


def test_repeats_are_matched_to_their_clients_in_any_order(tmp_path):
    asked = repeated(GRR, 5, 3, np.random.default_rng(1), choose=False)
    order = [14, 0, 3, 1, 2, 5, 4, 13, 12, 6, 8, 7, 9, 10, 11, *range(29, 14, -1)]
    path = tmp_path / "reports"
    names = asked.names()
    path.write_text("client,cohort,irr\n" + "".join(f"{names[line]},0,{line % 5 % 4}\n" for line in order))
    answers = read_answers(path, asked, GRR)
    assert answers.reports.reshape(6, 5).tolist() == [[0, 1, 2, 3, 0]] * 6


SECOND_VALUE_XOR = """\
first = {}
for row in rows:
    client, value = row['client'], int(row['value'])
    start = first.setdefault(client, value)
    memo[client, value] = report(client, start) ^ start ^ value
made = [(client, m, memo[client, int(row['value'])]) for (client, m, _), row in zip(made, rows)]
"""
METRICS_ALIKE = """\
import hashlib
made = []
for row in rows:
    words = hashlib.sha256(f"secret {row['client']} {row['value']}".encode()).digest()
    kept = int.from_bytes(words[:8], "big") < CHANCE * 2**64
    made.append((row['client'], row['cohort'], int(row['value']) if kept else words[8] % 4))
""".replace("CHANCE", str(float(GRR.mechanism.channel.alpha)))


def test_a_command_whose_second_value_has_the_noise_of_the_first_is_noticed():
    result = audit(GRR, Program(grr_client(SECOND_VALUE_XOR + WRITE)), Settings(reports=4000))
    assert result.failed == ["two values of a device"]
    assert any("two metrics of a device were not tested" in note for note in result.notes)


def test_a_command_is_told_the_metric_and_one_that_forgets_it_is_noticed():
    """Its noise is a hash of the client and the value: that is right of one metric, and the same of two."""
    command = [*grr_client(METRICS_ALIKE + WRITE), "--metric={metric}"]
    result = audit(GRR, Program(command), Settings(reports=4000))
    assert result.failed == ["two metrics of a device"]
    named = METRICS_ALIKE.replace("secret ", "secret {sys.argv[1]} ")
    result = audit(GRR, Program([*grr_client(named + WRITE), "{metric}"]), Settings(reports=4000, alpha=1e-9))
    assert result.failed == []


def test_values_are_written_as_they_are_read(tmp_path):
    from overstory.files.rappor import read_values

    declared = declare(mechanism("rappor", num_bits=16, num_cohorts=4))
    odd = declared.__class__(declared.mechanism, ("a,b", 'say "x"'), ("a,b", 'say "x"'))
    asked = Questions("", "c", np.arange(2), np.array([3, 0]), np.array([0, 1]))
    asked.write(tmp_path / "values.csv", odd)
    assert [tuple(row) for row in read_values(tmp_path / "values.csv", 4)] == [("c0", 3, "a,b"), ("c1", 0, 'say "x"')]
