"""The demonstration and `overstory reproduce`, run as a newcomer runs them."""

import datetime as dt
import json
import re
import time

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.cli.analysis.demo import METRIC, CollectorService, ServiceError, write_registry
from overstory.files.rappor import RapporParameters
from overstory.presentation.svg import VARIABLES
from overstory.protocol.metrics import Period
from support.running import overstory, within

SMALL = ["--reports", "20000", "--states", "5"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("parameters") / "params.csv"
    path.write_text("k,h,m,p,q,f\n32,2,4,0.5,0.75,0.5\n")
    return [*SMALL, "--params", str(path)]


@pytest.fixture(scope="module")
def told(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return json.loads(within("demo", *small, "--json", "--output", folder, cwd=folder).stdout), folder


def test_a_seed_gives_the_same_output_twice_and_another_seed_does_not(told, small, tmp_path):
    _, folder = told
    first = overstory("demo", *small, "--output", tmp_path, cwd=tmp_path)
    page, reports = (tmp_path / "demo.html").read_bytes(), (tmp_path / "reports.parquet").read_bytes()
    assert reports == (folder / "reports.parquet").read_bytes()
    second = within("demo", *small, "--output", tmp_path, cwd=tmp_path)
    assert (first.stdout, page) == (second.stdout, (tmp_path / "demo.html").read_bytes())
    other = within("demo", *small, "--seed", "7", "--output", tmp_path, cwd=tmp_path)
    assert other.stdout != first.stdout
    assert (tmp_path / "reports.parquet").read_bytes() != reports


def test_the_page_stands_alone_in_both_colour_schemes(told):
    _, folder = told
    text = (folder / "demo.html").read_text()
    assert text.count("<svg") == 2  # the estimates are drawn for wide and for narrow pages
    assert "<script" not in text
    assert re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", text) == []
    assert "prefers-color-scheme: dark" in text
    assert text.count('role="img"') == 2
    own = text.partition("</style>")[2].lower()
    assert not [colour for colour in VARIABLES if colour in own]  # every colour of a picture is the page's own
    assert "Epsilon 1.08: whatever you hold and however it changes, in any year: 1 answer" in text
    assert "overstory demo --reports 20000 --states 5 --params " in text
    assert "not detected" in text or 'class="faint"' not in text


PAPER = "rappor-75-of-100"


def test_it_prints_what_was_published_beside_ours_and_writes_everything(tmp_path):
    done = within("reproduce", PAPER, "--quick", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1.39e-24 (section 3)" in done.stdout
    assert "agrees" in done.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {f"{PAPER}.json", f"{PAPER}.png", f"{PAPER}.svg", "index.html", "summary.md", "summary.tex"}


def test_the_page_says_how_to_get_it_again(tmp_path):
    done = within("reproduce", "rappor-figure-1", "--quick", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "overstory reproduce --all --quick" in (tmp_path / "out" / "summary.md").read_text()


def test_what_needs_a_checkout_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("overstory.__file__", str(tmp_path / "site" / "overstory" / "__init__.py"))
    done = within("reproduce", cwd=tmp_path)
    assert done.returncode == 2
    assert "papers/ of the source: clone the repository" in done.stderr


# A collector in a process of its own: what is said when it does not start, refuses a batch, or is gone
STATES = ["Ohio", "Utah"]
PARAMETERS = RapporParameters(k=32, h=2, m=4, p=0.5, q=0.75, f=0.5)


@pytest.fixture
def service(tmp_path):
    """A collector of the demonstration's registry."""
    (tmp_path / "candidates.txt").write_text("".join(f"{state}\n" for state in STATES))
    write_registry(tmp_path / "metrics.toml", tmp_path / "candidates.txt", PARAMETERS, dt.datetime.now(dt.UTC).date())
    return CollectorService(tmp_path / "metrics.toml", tmp_path / "store.db", tmp_path / "collector.log")


def packed(parameters=PARAMETERS):
    mechanism = parameters.mechanism()
    batch = FrequencyOracle(mechanism).simulate(np.zeros(50, int), np.random.default_rng(1), candidates=STATES)
    return batch.to_wire(mechanism.digest)


def today():
    return Period.parse("day").number(time.time())


def post_and_lose(service):
    with service:
        assert service.post(METRIC, today(), packed()) == 50
        service._process.kill()
        service._process.wait()
        service.post(METRIC, today(), packed())


def test_batches_are_taken_until_the_collector_is_gone(service):
    with pytest.raises(ServiceError, match=r"does not answer .*collector\.log"):
        post_and_lose(service)


def test_reports_of_another_mechanism_are_refused_and_that_is_said(service):
    other = RapporParameters(k=32, h=2, m=4, p=0.5, q=0.75, f=0.25)
    with pytest.raises(ServiceError, match=r"refused reports.*wrong-parameters"), service:
        service.post(METRIC, today(), packed(other))


def test_a_collector_that_does_not_start_is_said_with_its_log(tmp_path):
    absent = CollectorService(tmp_path / "none.toml", tmp_path / "store.db", tmp_path / "collector.log")
    with pytest.raises(ServiceError, match=r"did not start; see .*collector\.log"), absent:
        absent.post(METRIC, today(), packed())
    assert "none.toml" in (tmp_path / "collector.log").read_text()
