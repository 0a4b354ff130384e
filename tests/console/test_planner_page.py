"""The planner: the same answer as the command, nearest needs that fill the form, mistakes as sentences."""

import html
import json
import re
import shlex
import time

import pytest

from overstory.cli.main import main
from support.console_in_process import client_of, console_on, open_test_store

NEEDS = {
    "strings": {"epsilon": 1.0743, "epsilon_permanent": 4.3945, "reports": 10**6, "candidates": 200, "share": 0.01},
    "too few": {"epsilon": 1, "epsilon_permanent": 4, "reports": 10**4, "candidates": 200, "share": 0.01},
    "sizes": {"epsilon": 2, "epsilon_permanent": 2, "reports": 10**5, "candidates": 50, "num_bits": 64, "share": 0.1},
    "domain": {"epsilon": 1, "reports": 10**5, "domain_size": 10, "share": 0.02, "alpha": 0.01},
    "two rounds": {"epsilon": 1, "epsilon_permanent": 2, "reports": 10**4, "domain_size": 100, "share": 0.01},
    "year": {"yearly": 4, "metrics": 5, "reports": 10**6, "domain_size": 20, "share": 0.1},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with open_test_store(tmp_path_factory.mktemp("planner")) as store:
        yield client_of(console_on(store))


def page(client, path="/plan", **needs):
    return client.get(path, params={name: str(value) for name, value in needs.items()})


def same_as_printed(client, capsys, needs, options):
    assert main(["plan", *options, "--json"]) == 0
    printed, served = json.loads(capsys.readouterr().out), page(client, "/plan.json", **needs).json()
    return {name: served[name] for name in printed} == printed


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
def test_the_numbers_are_those_of_the_command(client, capsys, needs):
    options = [word for name, value in needs.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert same_as_printed(client, capsys, needs, options)


@pytest.mark.parametrize("needs", [NEEDS["two rounds"], NEEDS["year"], NEEDS["year"] | {"period": "30 minutes"}])
def test_the_command_on_the_page_has_the_same_answer(client, capsys, needs):
    answer = page(client, **needs)
    (command,) = re.findall(r"<code>(overstory plan .*?)</code>", html.unescape(answer.text))
    assert same_as_printed(client, capsys, needs, shlex.split(command)[2:])


def test_a_year_is_planned_from_the_page_of_a_domain(client):
    (address,) = re.findall(r'href="(/plan\?[^"]*)"[^>]*>Within a bound on any year', page(client).text)
    answer = client.get(html.unescape(address))
    assert answer.status_code == 200
    assert "one panel, 1 answer a year" in answer.text
    assert "only while a value never changes" in answer.text
    assert page(client, yearly=4).status_code == 400, "how many values each metric has is needed"


def offered(answer):
    (links,) = re.findall(r'<nav [^>]*aria-label="Needs that can be met".*?</nav>', answer.text, re.DOTALL)
    return [html.unescape(address) for address in re.findall(r'href="(.*?)"', links)]


@pytest.mark.parametrize("name", ["too few", "two rounds"])
def test_impossible_needs_have_links_to_possible_ones(client, name):
    answer = page(client, **NEEDS[name])
    assert answer.status_code == 200
    assert "is too small for these needs" in answer.text
    addresses = offered(answer)
    assert len(addresses) == 3, "more devices, a larger epsilon, a larger share"
    for address in addresses:
        assert "is too small for these needs" not in client.get(address).text


@pytest.mark.parametrize("needs", [{"epsilon": 5, "epsilon_permanent": 2}, {"epsilon": 5, "domain_size": 9}])
def test_contradicting_needs_are_named_and_can_be_repaired(client, needs):
    answer = page(client, **{"epsilon_permanent": 3} | needs)
    assert answer.status_code == 400
    assert 'name="epsilon"' in answer.text, "the form is there to be corrected"
    addresses = offered(answer)
    assert [client.get(address).status_code for address in addresses] == [200, 200]


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"epsilon": 0}, "give a number from 0.001 to 50"),
        ({"share": 2}, ": Input should be less than or equal to 1"),
        ({"reports": 0}, "reports"),
        ({"domain_size": 1}, "domain_size"),
        ({"devices": 5}, ": this page has no such parameter"),
        ({"epsilon": "nan"}, "finite number"),
        ({"candidates": 2**70}, "andidates: Input should"),
    ],
)
def test_a_mistake_is_a_sentence(client, needs, words):
    answer = page(client, **needs)
    assert (answer.status_code, words in html.unescape(answer.text)) == (400, True)


def test_a_device_sends_the_same_report_each_time_and_every_oracle_has_one(client):
    first, again = (page(client, **NEEDS["strings"]).text for _ in range(2))
    assert first == again
    assert "Sent: noise drawn for this report" in first
    for needs in ({"domain_size": 2}, {"domain_size": 5, "epsilon": 4}, {"domain_size": 3000}, {"domain_size": 2**20}):
        assert "What your device would send" in page(client, **needs).text


def test_a_change_is_answered_soon(client):
    """About .1 s of processor time; ten times as much is a mistake on any machine."""
    page(client, **NEEDS["strings"])
    spent = []
    for step in range(5):
        start = time.process_time()
        assert page(client, **NEEDS["strings"] | {"epsilon": 1.1 + step / 10}).status_code == 200
        spent.append(time.process_time() - start)
    assert min(spent) < 1
