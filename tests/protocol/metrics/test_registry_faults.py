"""Every fault of a registry, each at its line, all at once, and each with what would be right."""

from unittest.mock import Mock

import pytest

from overstory.protocol.errors import FormatError
from overstory.protocol.metrics import Fault, RegistryError, load_registry, parse_registry, toml_fields
from overstory.protocol.metrics.metric_table import ROWS
from support.registry_texts import BINS, COLOURS, FIRST_LINE, LISTED, STRINGS, faults, registry_text, the_fault


def test_a_registry_without_faults_has_none():
    assert list(parse_registry(registry_text())) == ["colour"]


@pytest.mark.parametrize("wrong", ["0", "-1.0", "inf", "nan", "true", '"1"', "1" + 400 * "0"])
@pytest.mark.parametrize("table", ["{{epsilon = {}}}", "{{epsilon = 90.0, attributes = {{taste = {}}}}}"])
def test_an_epsilon_of_a_budget_that_is_none_is_a_fault(table, wrong):
    text = f"budget = {table.format(wrong)}\n" + registry_text().replace("title", 'attribute = "taste"\ntitle', 1)
    fault = the_fault(text)
    assert fault.field == ("budget.attributes.taste" if "taste" in table else "budget.epsilon")
    assert fault.message.endswith("give an epsilon above 0")


REQUIRED = ["title", "description", "owner", "purpose", "domain", "oracle", "period", "retention_days", "expires"]


@pytest.mark.parametrize("key", REQUIRED)
def test_what_is_missing_is_missed_at_its_metric(key):
    fault = the_fault(registry_text(without=key))
    assert (fault.line, fault.field) == (FIRST_LINE, f"metrics.colour.{key}")
    assert fault.message.startswith("missing: give ")


RAPPOR = {"oracle": 'oracle = "rappor"', "parameters": "parameters = {}"}
WRONG = [
    ({"title": 'title = " "'}, 4, "title", "give a few words"),
    ({"title": "title = 3"}, 4, "title", "give a few words"),
    ({"owner": 'owner = ""'}, 6, "owner", "give who answers for it"),
    ({"purpose": 'purpose = "because"'}, 7, "purpose", "'because' is no link: give a link to why it is collected"),
    ({"purpose": 'purpose = "javascript:alert(1)//x"'}, 7, "purpose", "is no link"),
    ({"purpose": 'purpose = "https://[x"'}, 7, "purpose", "is no link"),
    ({"domain": 'domain = "colours"'}, 8, "domain", "is no table"),
    ({"domain": 'domain = {names = ["a", "b"]}'}, 8, "domain.kind", "missing: give one of categories"),
    ({"domain": 'domain = {kind = "colours"}'}, 8, "domain.kind", "'colours' is no kind of domain"),
    ({"domain": 'domain = {kind = "bins", min = 0, max = 2}'}, 8, "domain", "count"),
    ({"domain": 'domain = {kind = "bins", min = 0, max = 2, cuont = 9}'}, 8, "domain.cuont", "did you mean count?"),
    ({"domain": "domain = {kind = 'categories', names = 7}"}, 8, "domain", ""),
    ({"domain": "domain = {kind = 'bins', min = nan, max = 2, count = 3}"}, 8, "domain", "give a finite number"),
    ({"oracle": 'oracle = "gr"'}, 9, "oracle", "'gr'; did you mean grr? choose one of basic-rappor"),
    ({"oracle": "oracle = 7"}, 9, "oracle", "choose one of"),
    (RAPPOR, 9, "oracle", "rappor takes strings, not symbols"),
    ({"parameters": "parameters = {}"}, 10, "parameters", "grr needs the parameter epsilon"),
    ({"parameters": "parameters = 1"}, 10, "parameters", "is no table"),
    ({"parameters": "parameters = {epsilon = -1}"}, 10, "parameters.epsilon", "epsilon = -1"),
    ({"parameters": "parameters = {epsilon = [1]}"}, 10, "parameters.epsilon", "give a finite number"),
    ({"parameters": "parameters = {epsilon = inf}"}, 10, "parameters.epsilon", "give a finite number"),
    ({"parameters": f"parameters = {{epsilon = 1{'0' * 400}}}"}, 10, "parameters.epsilon", "give a finite number"),
    ({"parameters": "parameters = {epsilon = 1, f = 0.5}"}, 10, "parameters.f", "grr has no parameter f"),
    ({"parameters": "parameters = {epsilon = 1, domain_size = 4}"}, 10, "parameters.domain_size", "has 3 symbols"),
    ({"period": 'period = "daily"'}, 11, "period", "'daily' is no period"),
    ({"period": "period = 3600"}, 11, "period", "is no period"),
    ({"retention_days": "retention_days = -1"}, 12, "retention_days", "a whole number from 0 to 36500"),
    ({"retention_days": "retention_days = true"}, 12, "retention_days", "a whole number from 0 to 36500"),
    ({"expires": 'expires = "2027-11-21"'}, 13, "expires", "a date without quotes"),
    ({"expires": "expires = 2027-11-21T00:00:00Z"}, 13, "expires", "a date without quotes"),
]


@pytest.mark.parametrize(("instead", "line", "field", "says"), WRONG)
def test_what_is_wrong_is_said_at_its_line(instead, line, field, says):
    fault = the_fault(registry_text(instead=instead))
    assert (fault.line, fault.field) == (line, f"metrics.colour.{field}")
    assert says in fault.message


PUBLISH = 'publish = "estimates"'
SHORT = 'opt_out = "Settings"\n' + registry_text(PUBLISH, instead={"retention_days": "retention_days = 30"})
ADDED = [
    ("attribute = 3", "attribute", "give up to 64 of a-z"),
    ('attribute = "Mood of the day"', "attribute", "give up to 64 of a-z"),
    ("yearly_reason = 3", "yearly_reason", "give"),
    ("panel = 3", "panel", "is no table: give"),
    ("window = 0", "window", "from 1 to"),
    ("window = 2.5", "window", "from 1 to"),
    ("max_values = 0", "max_values", "from 1 to"),
    ("grace_days = 99999", "grace_days", "from 0 to"),
    ("grace_days = 91", "grace_days", "late reports are taken for at most retention_days, 90"),
    ('over_cap = "nearest"', "over_cap", "nearest needs an ordered domain"),
    ('over_cap = "keep"', "over_cap", "choose one of drop, first, nearest"),
    ('groups = "release"', "groups", "give"),
    ('publish = "estimate"', "publish", "did you mean estimates? choose one of nothing, estimates"),
    ("publish_least = 100", "publish_least", "nothing is published: leave it out"),
    ('transport = "tor"', "transport", "choose one of direct, oblivious"),
    ("expiry = 2027-11-21", "expiry", "did you mean expires?"),
    ("zzz = 1", "zzz", "the keys are title, description"),
    ("needs = {epsilon_report = 1}", "needs", "either an oracle with its parameters, or the needs"),
]


@pytest.mark.parametrize(("added", "field", "says"), ADDED)
def test_what_is_added_and_wrong(added, field, says):
    fault = the_fault(registry_text(added))
    assert (fault.line, fault.field) == (14, f"metrics.colour.{field}")
    assert says in fault.message


def test_needs_have_to_be_planned_first():
    text = registry_text("needs = {epsilon_report = 1}", without="oracle").replace("parameters = {epsilon = 1.0}\n", "")
    fault = the_fault(text)
    assert (fault.line, fault.field) == (12, "metrics.colour.needs")
    assert "overstory plan --registry FILE" in fault.message


@pytest.mark.parametrize(
    ("oracle", "domain", "parameters", "field", "says"),
    [
        ("oue", STRINGS, "{epsilon = 1}", "oracle", "oue takes symbols, not strings: choose one of blh"),
        ("olh", STRINGS, "{epsilon = 1, num_seeds = 63}", "parameters.num_seeds", "63: give a whole number from 64"),
        ("olh", LISTED, "{epsilon = 1, domain_size = 9}", "parameters.domain_size", "strings have no domain size"),
        ("rappor", STRINGS, "{f = 1.0}", "parameters.f", "f = 1"),
        ("rappor", STRINGS, "{num_bits = 1}", "parameters.num_bits", "num_bits (k) = 1"),
        ("opt-wb", BINS, "{epsilon = 1}", "parameters", "needs the parameter window"),
        ("l-osue", BINS, "{epsilon_permanent = 1, epsilon_report = 2}", "parameters.epsilon_report", "must be below"),
        ("random-matrix", BINS, '{epsilon = "much"}', "parameters.epsilon", "give a number"),
        ("rappor", '{kind = "strings", candidates = 7}', "{}", "domain.candidates", "give the name of a file"),
    ],
)
def test_oracles_that_do_not_fit_their_domain_or_parameters(oracle, domain, parameters, field, says):
    fault = the_fault(registry_text(oracle=oracle, domain=domain, parameters=parameters))
    assert fault.field == f"metrics.colour.{field}"
    assert says in fault.message


def test_the_oracles_own_window_and_the_metrics_agree_or_it_is_said():
    fault = the_fault(registry_text("window = 48", oracle="wb", domain=BINS, parameters="{epsilon = 1, window = 24}"))
    assert (fault.line, fault.field) == (14, "metrics.colour.window")
    assert fault.message == "48, but the oracle's own window is 24: say it once"


@pytest.mark.parametrize("name", ["Colour", "-colour", "a b", "x" * 65, "é"])
def test_ids_that_cannot_be(name):
    fault = the_fault(registry_text(metric=f'"{name}"'))
    assert (fault.line, fault.field) == (3, f"metrics.{name}")
    assert "cannot be an id" in fault.message


def test_all_faults_of_all_metrics_come_at_once_in_the_order_of_the_lines():
    first = registry_text(instead={"period": 'period = "daily"', "purpose": 'purpose = "because"'}, without="owner")
    second = registry_text(metric="shape", instead={"oracle": 'oracle = "gr"'}).partition("\n\n")[2]
    found = faults(f"version = 1\n{first}\n{second}")
    expected = [(1, "version"), (4, "owner"), (7, "purpose"), (11, "period"), (21, "oracle")]
    assert [(fault.line, fault.field.rpartition(".")[2]) for fault in found] == expected


def test_the_message_holds_every_fault():
    with pytest.raises(RegistryError) as caught:
        parse_registry(registry_text(instead={"period": "period = 1"}, without="owner"), source="metrics.toml")
    said = str(caught.value)
    assert said.startswith("metrics.toml: 2 faults\n  line 3, metrics.colour.owner: missing")
    assert "\n  line 10, metrics.colour.period: 1 is no period" in said
    assert isinstance(caught.value, FormatError)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "missing: give the registry's version"),
        ('registry = "1"\n', 1, "missing: give a table [metrics.ID]"),
        ('registry = "1"\nmetrics = 3\n', 2, "3 is no table"),
        ('registry = "1"\n[metrics]\n', 2, "there is no metric"),
        ('registry = "1"\n[metrics]\ncolour = 3\n', 3, "3 is no table: give a table"),
        ('registry = "1"\nmetrics = \n', 2, "no TOML: invalid value, at column 11"),
        ('registry = "1"\n[metrics.a]\n[metrics.a]\n', 3, "no TOML: cannot declare ('metrics', 'a') twice"),
        ('registry = "1', 1, "no TOML"),
        (f"registry = 1{'0' * 5000}\n", 2, "no TOML"),
        (f"registry = {'[' * 3000}\n", 2, "nested too deeply"),
        (registry_text(without="oracle"), 3, "missing: give one of"),
        (registry_text(PUBLISH), 1, "stops the collection, because estimates of colour are published"),
        (f'opt_out = " "\n{registry_text(PUBLISH)}', 1, "give a sentence on how a person stops the collection"),
        (f"opt_out = 7\n{registry_text(PUBLISH)}", 1, "give a sentence on how a person stops the collection"),
        (f"optout = 'x'\n{registry_text()}", 1, "no such key; did you mean opt_out?"),
        (f'opt_out = "Settings"\n{registry_text(PUBLISH, "publish_least = 1")}', 16, "1: give a whole number from 2"),
        (SHORT, 15, "a period is published from the end of its 30 grace_days to that of its 30 retention_days"),
    ],
)
def test_what_is_no_registry_at_all(text, line, says):
    found = faults(text)
    assert any(fault.line == line and says in fault.message for fault in found), found


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file or directory"),
        (b"", "trees.txt: the file is empty: give one candidate per line"),
        (b"\n\r\n\n", "the file is empty"),
        (b"oak\nash\noak\n", "candidates stand there twice: 'oak' (lines 1 and 3); list each once"),
        (b"a\nb\nc\nd\na\nb\nc\nd\n", "'c' (lines 3 and 7) and 1 more"),
        (b"oak\n\xff\n", "trees.txt, line 2: no UTF-8 text"),
    ],
)
def test_candidate_files(tmp_path, content, says):
    if content is not None:
        (tmp_path / "trees.txt").write_bytes(content)
    fault = the_fault(registry_text(oracle="rappor", domain=LISTED, parameters="{}"), tmp_path)
    assert (fault.line, fault.field) == (8, "metrics.colour.domain.candidates")
    assert says in fault.message


@pytest.mark.parametrize("name", ["", "/etc/hostname", "a\\\\b.txt", "a\\u0000b"])
def test_candidate_files_lie_beside_the_registry(tmp_path, name):
    domain = f'{{kind = "strings", candidates = "{name}"}}'
    fault = the_fault(registry_text(oracle="rappor", domain=domain, parameters="{}"), tmp_path)
    assert fault.field == "metrics.colour.domain.candidates"
    assert "relative to the registry's folder" in fault.message or "cannot be read" in fault.message


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "metrics.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="expected UTF-8 text"):
        load_registry(path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "metrics.toml"
    path.write_bytes(b"\xef\xbb\xbf" + registry_text().encode())
    assert load_registry(path).digest == parse_registry(registry_text()).digest


def test_lines_of_files_with_other_line_ends_are_the_same():
    text = registry_text(instead={"period": 'period = "daily"'})
    assert faults(text.replace("\n", "\r\n")) == faults(text)


def test_lines_are_looked_for_where_there_is_a_fault_alone(monkeypatch):
    monkeypatch.setattr(toml_fields, "positions", Mock(side_effect=toml_fields.positions))
    parse_registry(registry_text())
    assert not toml_fields.positions.called
    faults(registry_text(without="title"))
    assert toml_fields.positions.call_count == 1


def test_no_key_is_left_out_of_these_tests():
    tried = {next(iter(instead)) for instead, *_ in WRONG} | {added.partition(" =")[0] for added, *_ in ADDED}
    assert set(ROWS) <= tried | {"description"}
    assert str(Fault(1, "", "no TOML")) == "line 1: no TOML"
    assert COLOURS.count('"') == 8
