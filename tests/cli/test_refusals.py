"""What cannot be done is refused by one sentence, by every command, and nothing is written."""

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from overstory.collector.store import open_store
from overstory.protocol.metrics.registry import EXAMPLE
from support.gateway_samples import registry_text
from support.registry_texts import registry_of
from support.running import within
from support.store_samples import registry

EXAMPLES = Path(__file__).parents[2] / "examples"
COLOUR = re.sub("expires = .*", "expires = 2999-01-01", EXAMPLE)
STRINGS = COLOUR.replace('{kind = "categories", names = ["red", "green", "blue"]}', '{kind = "strings"}').replace(
    'oracle = "grr"\nparameters = {epsilon = 1.0}', 'oracle = "rappor"'
)

GROUPS = '{by = "release", shares = {"1.0" = 0.5, "1.1" = 0.4}, devices = 100000}'
CRASHES = {
    "domain": '{kind = "table", names = ["version", "crash"], of = ['
    '{kind = "categories", names = ["1.0", "2.0"]}, {kind = "categories", names = ["no", "yes"]}]}',
    "oracle": '"oue"',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("refusals")
    for example in EXAMPLES.glob("*"):
        if example.suffix in {".toml", ".txt"}:
            (path / example.name).write_bytes(example.read_bytes())
    text = (path / "metrics.toml").read_text("utf-8")
    rows = "".join(f"c{i},{('oak', 'ash', 'café', f'rare{10_000 + i}')[i % 4]},{i}\n" for i in range(200))
    files = {
        "s.csv": "who,state,kwh\n" + "1,Ohio,0.5\n2,Utah,1.5\n3,Iowa,0.25\n" * 9,
        "far.csv": "x\n1e308\n-1e308\n5\n",
        "data.csv": "state,n\nOhio,1\nUtah,2\nOhio,3\n,4\nIowa,5\n",
        "empty.csv": "state\n\n",
        "data.parquet": "PAR1 and no more of it",
        "trees.csv": "client,tree,number\n" + rows,
        "bad.csv": "client,number\na,12\nb,twelve\n",
        "long.csv": "tree\noak\n" + "y" * 40 + "\n",
        "known.txt": "oak\nyew\n",
        "params.csv": "k,h,m,p,q,f\n16,2,4,0.5,0.75,0.5\n",
        "malformed.csv": "k,h,m,p,q,f\n128,2,16,0.5,high,0.5\n",
        "values.csv": "client,cohort,value\nann,0,oak\nbob,1,elm\n",
        "wrong.csv": "client,cohort,value\nann,0,oak\nbob,9,oak\neve,0\n",
        "two.csv": "client,cohort,value\nann,0,oak\nann,2,oak\n",
        "short.csv": "cohort,irr\n0,0101\n",
        "energy.toml": registry_text(),
        "readings.csv": "time,value\n2026-10-24T00:00,0.5\n",
        "colour.toml": COLOUR,
        "strings.toml": STRINGS,
        "grouped.toml": f"{COLOUR}groups = {GROUPS}\n",
        "table.toml": registry_of({"crashes": CRASHES}),
        "t": "ovr_a-token",
        "empty": "",
        "relay.toml": "gateway = 'http://c'\nmost_bytes = 0\n",
        "faulty.toml": text.replace('oracle = "grr"', 'oracle = "gr"'),
    }
    files |= {f"serve-{number}.toml": text for number, (text, _) in enumerate(FAULTY_SETTINGS)}
    for name, content in files.items():
        (path / name).write_text(content, "utf-8")
    (path / "t").chmod(0o644)
    (path / "binary.toml").write_bytes(b"\xff\xfe")
    parquet.write_table(pa.table({"state": [["Ohio"], ["Utah"]]}), path / "lists.parquet")
    columns = {name: [row.split(",")[place] for row in rows.split()] for place, name in enumerate(("client", "tree"))}
    parquet.write_table(pa.table(columns), path / "trees.parquet")
    for line in (
        "encode --params params.csv --values values.csv --seed 1 -o reports.parquet",
        "sum --params params.csv reports.parquet -o counts.csv",
        "map --params params.csv --candidates known.txt -o map.csv",
    ):
        assert within(*line.split(), cwd=path).returncode == 0
    with open_store(str(path / "reports.db"), registry(), create=True):
        pass
    return path


FAULTY_SETTINGS = [
    ("compact_evry = 1", ", field compact_evry: there is no such setting; did you mean compact_every?"),
    ("zebra = 1", ", field zebra: there is no such setting; the settings are registry, store, host"),
    ('port = "80"', ", field port: give a whole number, not '80'"),
    ("port = true", ", field port: give a whole number, not True"),
    ("open_writes = 1", ", field open_writes: give true or false, not 1"),
    ("store = 5", ", field store: give text, not 5"),
    ("compact-every = 1\ncompact_every = 2", ", field compact_every: it is given twice, with - and with _"),
    ("port = ", ": this is not TOML"),
    ("grace = nan", ": grace: give a number that is not negative"),
]
FILES = "--params params.csv --counts counts.csv --map map.csv"
STORED = "--store reports.db --registry colour.toml --metric colour"
BY_RELEASE = "--store reports.db --registry grouped.toml --metric colour"
TABLE = "--store reports.db --registry table.toml --metric crashes"
NEEDS = "--domain-size 10 --epsilon 2 --reports 5000"
FOR_STRINGS = "--epsilon 1.0743 --epsilon-permanent 4.3945 --reports 1000000 --candidates 200"
GIVEN = "--params params.csv --reports 5 --candidates 3"
GATEWAY = "--metric energy --registry energy.toml --state meter --readings"
SENT = f"{GATEWAY} readings.csv --server http://127.0.0.1:9"
INIT = "init new.toml --id theme --description 'The theme.' --owner Design --purpose https://example.org/7 --yes"
YES_NO = f"{INIT} --kind yes-no"
SHUFFLING = "--gateway http://c --spool s OVERSTORY_RELAY_TOKEN_FILE="
TOKEN = "tokens reports.db --add admin --application a --expires"
REFUSED = {
    "": [  # mistyped: one line with what may be meant, and no usage
        ("decdoe", "overstory: error: there is no command 'decdoe'; did you mean decode? (see overstory --help)"),
        ("--versoin", "overstory: error: there is no option --versoin; did you mean --version? (see overstory --help)"),
        ("decode --mpa=x", "overstory decode: error: there is no option --mpa; did you mean --map?"),
        ("metrics lint x y", "overstory metrics lint: error: unexpected argument: y (see overstory metrics lint "),
        ("plan --reports many", "argument --reports: 'many' is not a whole number: give one such as 1000000, "),
        ("compare --epsilon 1,5", "argument --epsilon: '1,5' is not a number: give one such as 0.5"),
        ("privacy rapor", "there is no mechanism 'rapor'; did you mean rappor?"),
        ("sum", "overstory sum: error: the following arguments are required: INPUT, -o/--output (see"),
    ],
    "audit": [
        ("", "give one of --params, --oracle, --registry: what the client declares, in one form"),
        ("--params params.csv --", "nothing comes after --: give what belongs there, or leave out the --"),
        ("--registry metrics.toml", "--metric missing: --registry and --metric belong together"),
        ("--oracle hybrid --param epsilon=1", "an audit reads no reports of hybrid; it reads"),
        ("--params params.csv --reports 10", "--reports = 10: give a whole number from 200"),
        ("--params params.csv --alpha 0", "--alpha 0: give a chance above 0, at most 0.5"),
    ],
    "collect": [
        ("nope.csv --column state", "nope.csv: no such file or directory"),
        ("s.csv --column county", "there is no column 'county'; there are: 'who', 'state', 'kwh'"),
        ("s.csv --column kwh --bins 0 1 2.5", "2.5 is no number of bins"),
        ("s.csv --column state --separator ; --csv dates=week", "--csv dates=week has no effect with --separator"),
        ("s.csv --column kwh --bins 1 0 2", "error"),
        ("s.csv --column state --epsilon-permanent 1", "--epsilon-permanent has no effect without --epsilon: "),
        ("s.csv --column state --epsilon -1", "epsilon"),
        ("s.csv --column state --csv encoding=rot13", "--csv encoding=rot13: this is no encoding of text"),
        ("far.csv --column x --numeric", "lie too far apart, or too close together, to choose bins"),
        ("s.csv --column state --seed -1", "--seed -1"),
        ("s.csv --column kwh --numeric --epsilon 1 --epsilon-permanent 2", "all reports of a number are the same"),
        ("s.csv --column kwh --numeric --range 2 1", "minimum = 2.0 is not below maximum = 1.0"),
        ("s.csv --column kwh --numeric --oracle grr", "grr gives no mean of numbers: choose auto or hybrid"),
        ("s.csv --column kwh --numeric distribution --oracle hybrid", "hybrid gives no distribution of numbers"),
        ("s.csv --column state --numeric", "state"),
        ("s.csv --column state --separator ''", "give the text between two items"),
        ("s.csv --column state --separator ';' --oracle grr", "there is no mechanism 'grr' for sets"),
        ("s.csv --column state --separator ';' --epsilon 1 --epsilon-permanent 3", "sets are reported in one round"),
        ("s.csv --column state --separator ';' --most 9", "most = 9"),
        ("s.csv --column state --column who --separator ';'", "--separator is for one column: give one --column"),
        ("s.csv --column state --column state", "two different columns"),
        ("s.csv --column who --column state --column kwh", "two different columns"),
        ("s.csv --column who --column state --bins 0 1 2", "--bins is for one column"),
        ("s.csv --column who --column state --people 10", "--people is for one column"),
        ("s.csv --column state --column os", "os"),
    ],
    "compare": [
        ("--epsilon 1", "give --domain-size D and --reports N, or FILE"),
        ("--epsilon 1 none.csv --column x", "none.csv"),
        ("--epsilon 1 data.csv --column n --domain-size 3", "has 5 different values"),
        (f"{NEEDS} --measure 0", "--measure 0: give a whole number, 1 or more"),
        ("--domain-size 4 --epsilon 0 --reports 5", "epsilon = 0.0"),
        ("--domain-size 4 --epsilon 1 --reports -2 --measure 1", "num_reports = -2"),
        ("--epsilon 1 data.csv --column state --reports -2", "num_reports = -2"),
        ("--epsilon 1 empty.csv --column state", "the column 'state' holds no values"),
        ("--epsilon 1 lists.parquet --column state", "a column of text or numbers is expected"),
        ("--epsilon 1 data.parquet --column state", "data.parquet"),
    ],
    "console --registry colour.toml --store reports.db": [
        ("--host 0.0.0.0", "--host 0.0.0.0 can be reached from other machines, and there is no TLS"),
        ("--port 70000", "--port 70000: ports are 0 .. 65535"),
        ("OVERSTORY_CONSOLE_TLS_KEY=key.pem", "tls_certificate and tls_key belong together"),
        ("OVERSTORY_CONSOLE_TRUST_HEADER=X-User", "trust_header needs from"),
        ("--store no.db --check", "no.db: there is no such store"),
    ],
    "serve --registry metrics.toml --port 0": [
        ("--store reports.db OVERSTORY_TLS_KEY=key.pem", "tls_certificate and tls_key belong together"),
        ("--store reports.db --registry faulty.toml", "faulty.toml"),
    ],
    "serve --registry metrics.toml --store reports.db": [
        *((f"--config serve-{n}.toml", f"serve-{n}.toml{says}") for n, (_, says) in enumerate(FAULTY_SETTINGS)),
        ("OVERSTORY_PROT=80", "OVERSTORY_PROT: there is no such setting; did you mean OVERSTORY_PORT?"),
        ("OVERSTORY_PORT=many", "OVERSTORY_PORT=many: give a whole number"),
        ("OVERSTORY_PORT=65536", "OVERSTORY_PORT=65536: ports are 0 .. 65535"),
        ("OVERSTORY_GRACE=long", "OVERSTORY_GRACE=long: give a number"),
        ("OVERSTORY_GRACE=-1", "OVERSTORY_GRACE=-1: give a number that is not negative"),
        ("OVERSTORY_COMPACT_EVERY=nan", "OVERSTORY_COMPACT_EVERY=nan: give a number that is not negative"),
        ("OVERSTORY_OPEN_WRITES=maybe", "OVERSTORY_OPEN_WRITES=maybe: give 1 or 0"),
    ],
    "sum --params params.csv": [
        ("reports.parquet -o counts.parquet", "-o counts.parquet: counts are CSV: give another name"),
        ("short.csv -o new.csv", "short.csv, line 2, field irr: expected 16 characters 0 or 1, found 4"),
    ],
    "demo": [
        ("--reports 0 -o never", "at least 1"),
        ("--states 1 -o never", "give a number from 2 to 58"),
        ("--seed -1 -o never", "--seed"),
    ],
    "discover --epsilon 4": [
        ("trees.csv --column tree --alphabet ''", "--alphabet is empty"),
        ("trees.csv --column tree --alphabet abc --bytes 65", "give a whole number from 1 to 64"),
        ("trees.csv --column tree --alphabet abc --known known.txt", "known.txt"),
        ("bad.csv --column number", "bad.csv, line 3, field number: 'twelve' is no whole number"),
        ("trees.csv --column tree --bytes 2", "line 2, field tree: values are longer than --bytes 2: "),
        ("trees.csv --column tree --bytes 2", "give --bytes 9 (the longest value, 'rare10003', has 9"),
        ("trees.parquet --column tree --bytes 2", "field tree: values are longer than --bytes 2: give"),
        ("trees.csv --column tree", "field tree: the column holds text: give --bytes 9 (the longest value"),
        ("long.csv --column tree", "has 40 bytes in UTF-8, and at most 32 can be searched for; shorten the"),
        ("trees.csv --column tree --bytes 99", "max_bytes = 99"),
        ("trees.csv --column number --bits 65", "bits = 65"),
        ("trees.csv --column number --known known.txt", "known.txt: 'oak' is no whole number"),
        ("trees.csv --column number --epsilon -1", "give a number above 0"),
    ],
    "encode --params params.csv": [
        ("--values values.csv -o x.json", "cannot tell the format from the name x.json"),
        ("--values values.csv -o no/x.csv", "no/x.csv: no such file or directory"),
        (
            "--values wrong.csv -o x.csv",
            "wrong.csv, line 3, field cohort: expected a whole number from 0 to 3, found '9'",
        ),
        ("--values two.csv -o x.csv", "two.csv, line 3, field cohort: client 'ann' is in cohort 2 here and in 0 above"),
        ("--values values.csv --hash-family md5 -o x.csv", "there is no hash family 'md5'"),
    ],
    "decode": [
        ("--params params.csv --counts map.csv --map map.csv -o x", "map.csv, line 1"),
        ("--params params.csv --counts counts.csv --map counts.csv -o x", "counts.csv, line 1"),
        (f"{FILES} -o x --alpha 5", "5"),
        (f"{FILES} -o known.txt", "known.txt: file exists"),
        (f"{STORED} --pool 1", "--pool 1: give a whole number from 2"),
        ("", "--params, --counts, --map, --output missing without INPUT or --store: `overstory decode --help`"),
        ("--params p.csv --metric colour", "--metric has no effect without INPUT or --store"),
        (f"{STORED} --plot c.gif", "--plot c.gif: pictures are SVG: give a name that ends in .svg"),
        (f"{STORED} --plot c.svg", "--plot c.svg: there are no reports to draw"),
        (f"{STORED} --by-group", "colour has no groups: its reports name none"),
        (f"{STORED} --group 1.0", "colour has no groups: its reports name none"),
        ("--store reports.db", "--metric missing with --store"),
        ("--store reports.db --metric colour", "--store needs --registry"),
        ("--store reports.db --registry colour.toml --metric shape", "there is no metric 'shape'"),
        (f"{STORED} --from yesterday", "'yesterday' is no week: give one such as"),
        (f"{STORED} --from 2026-W37 --to 2026-W36", "ends before it begins"),
        ("--store absent.db --registry colour.toml --metric colour", "absent.db"),
        ("--store reports.db --registry absent.toml --metric colour", "absent.toml"),
        ("--store https:// --registry colour.toml --metric colour", "no collector's address"),
        (f"{BY_RELEASE} --group 1.3", "there is no group '1.3': the groups are 1.0, 1.1, other"),
        (f"{BY_RELEASE} --compare 1.0 1.0", "give two different groups"),
        (f"{BY_RELEASE} --compare 1.3 1.4", "'1.3' is no week: give one such as"),
        (f"{BY_RELEASE} --compare 1.0 2", "there is no group '2'"),
        (f"{BY_RELEASE} --compare 1.0 2026-W45", "there is no group '2026-W45'"),
        (f"{BY_RELEASE} --compare 1.0 1.1 --group 1.0", "--group has no effect with --compare 1.0 1.1: these are"),
        (f"{STORED} --compare 2026-W45.. 2026-W44", "is no range of periods: give FIRST..LAST"),
        (f"{STORED} --compare 2026-W45..2026-W44 2026-W43", "ends before it begins"),
        (f"{STORED} --compare 2026-11-20 2026-W43", "2026-11-20"),
        (f"{STORED} --compare 2026-W45 2026-W44 --from 2026-W44", "--from has no effect with --compare"),
        (f"{TABLE} --steps norm-sub", "crashes is read as a table of several variables: post-processing"),
        (f"{TABLE} --method lasso", "several variables: a method does not apply to it"),
        ("reports.parquet --counts counts.json", "--counts has no effect on exported folders"),
        (f"reports.parquet {STORED}", "--store has no effect on exported folders"),
        ("exported", "--registry missing on exported folders"),
        ("values.csv --registry metrics.toml --metric theme", "values.csv: a file is no exported folder"),
    ],
    "gateway": [
        (SENT, "nobody has agreed that this gateway reports: --agree on does"),
        (f"{GATEWAY} readings.csv --server x --agree on", "give an address"),
        (f"{SENT} --agree on --timezone Europe/Bonn", "no time zone 'Europe/Bonn'"),
        (f"{SENT} --agree on --spread -1", "spread"),
        (f"{SENT} --agree on --wait -1", "--wait = -1.0: give seconds"),
        (f"{SENT} --agree on --wait nan", "--wait = nan: give seconds"),
        (f"{SENT} --agree on --group north", "energy has no groups"),
    ],
    "metrics": [
        ("show faulty.toml", "faulty.toml, line 36, field metrics.theme.oracle: 'gr'; did you mean grr? choose one of"),
        ("diff faulty.toml metrics.toml", "faulty.toml, line 36, field metrics.theme.oracle: 'gr'"),
        *((f"{action} nowhere.toml", "nowhere.toml: no such file or directory") for action in ("lint", "show")),
        *((f"{action} binary.toml", "binary.toml: expected UTF-8 text") for action in ("lint", "show")),
        ("diff metrics.toml binary.toml", "binary.toml: expected UTF-8 text"),
        ("show metrics.toml themes", "there is no metric 'themes': the registry lists search-engine, theme"),
        ("lint /dev/zero", "/dev/zero: larger than 16 MiB: this is not a registry"),
        (INIT.replace("--owner Design ", ""), "--owner is missing: give who is responsible"),
        (f"{INIT} --id 'No good'", "--id: 'No good': give up to 64 of"),
        (f"{INIT} --kind colour", "--kind: 'colour': give one of choice, yes-no, number, words"),
        (f"{INIT} --values one", "--values: give at least two different values"),
        *(
            (f"{INIT} --kind number --values {ends}", f"--values: '{ends}': give the smallest and the largest number")
            for ends in ("5..5", "9..1", "1,5", "a..b")
        ),
        (f"{INIT} --kind number", "--values is missing: give the values of a choice, separated by commas, or the ends"),
        (YES_NO.replace("new.toml", "metrics.toml"), "metrics.toml exists: give another FILE, or remove it"),
        (f"{YES_NO} --devices 0", "--devices: "),
        (f"{YES_NO} --epsilon 1e9", "--epsilon: 1e9: give a number from 0.01 to 8"),
        (f"{YES_NO} --period daily", "--period: 'daily' is no period"),
        (f"{YES_NO} --devices 5e5", "--devices: '5e5': give a whole number"),
        (f"{YES_NO} --purpose because", "--purpose: 'because' is not a link"),
        (f"{YES_NO} --purpose https://", "'https://' is no link"),
    ],
    "plan": [
        ("--registry faulty.toml", "faulty.toml, line 36, field metrics.theme.oracle: 'gr'"),
        ("--registry binary.toml", "binary.toml: expected UTF-8 text"),
        ("--registry metrics.toml --epsilon 1", "--epsilon has no effect for a registry: plan for --params,"),
        ("--domain-size 10 --reports 5", "--epsilon missing for a known domain"),
        (f"{NEEDS} --alpha 0.01 --share 0", "share = 0.0: give a fraction above 0"),
        (f"{NEEDS} --alpha 1", "alpha = 1.0: give a fraction above 0 and below 1"),
        ("--epsilon 1 --epsilon-permanent 2 --reports 5", "--candidates missing for given needs"),
        (
            "--reports 5 --candidates 3",
            "--epsilon, --epsilon-permanent missing for given needs: plan for --params, --ep",
        ),
        ("--epsilon 2 --epsilon-permanent 1 --reports 5 --candidates 3", "is below epsilon_report"),
        (f"{GIVEN} --reports 0", "reports = 0"),
        (f"{GIVEN} --share 2", "share = 2.0"),
        (f"{GIVEN} --share 1e-160", "share = 1e-160: no number"),
        (f"{GIVEN} --alpha 7", "alpha = 7.0"),
        (f"{GIVEN} --params nowhere.csv", "nowhere.csv"),
        (f"{GIVEN} --params malformed.csv", "line 2, field q"),
        ("--domain-size 9 --epsilon 1e-300 --reports 5", "reaches epsilon 1e-300"),
        ("--domain-size 9 --epsilon 1e-300 --epsilon-permanent 1e-299 --reports 5", "reaches epsilon 1e-300"),
    ],
    "privacy": [
        ("--registry metrics.toml", "give the id of one metric"),
        ("theme --registry metrics.toml --param epsilon=2", "neither --param nor --params"),
        ("theme --param epsilon=2", "there is no mechanism 'theme'"),
        ("", "give --params FILE, or an oracle: basic-rappor"),
        ("rappor --param g=1", "rappor has no parameter g"),
        ("rappor --param f", "give NAME=VALUE"),
        ("rappor --param f=0.5 --param f=0.25", "once for each name"),
        ("rappor --param f=half", "--param f=half: give a number"),
        ("rappor --param num_bits=many", "--param num_bits=many: give a whole number"),
        ("rappor --param f=nan", "f = nan"),
        ("basic-rappor", "needs the parameter domain_size"),
        ("grr", "grr needs the parameters domain_size, epsilon"),
        ("basic-rappor --params params.csv", "--params is for rappor"),
        ("--params params.csv --param f=0.25", "--params is for rappor"),
        ("--params nowhere.csv", "nowhere.csv"),
        ("rappor --reports 0", "reports = 0"),
        ("wb --param domain_size=5 --param epsilon=1 --param window=4 --delta 1", "delta = 1"),
        ("hybrid --param epsilon=much", "--param epsilon=much: give a number"),
        ("hybrid --param resolution=2.5", "--param resolution=2.5: give a whole number"),
        ("hybrid --param epsilon=1 --param outside=wrap", "outside = 'wrap': choose clamp or reject"),
        ("hybrit --param epsilon=1", "there is no mechanism 'hybrit'; did you mean hybrid? choose one of"),
    ],
    "relay": [
        ("--gateway collector", "--gateway: 'collector': give an address such as https://collector.example"),
        ("--gateway http://c/v1/oblivious", "give the collector's address without a path"),
        ("--port 0", "--gateway must be given, or OVERSTORY_RELAY_GATEWAY, or gateway in the --config file"),
        ("--gateway http://c --spool s", "--spool and token_file belong together: a relay that shuffles needs both"),
        (
            "--gateway http://c OVERSTORY_RELAY_TOKEN_FILE=t",
            "--spool and token_file belong together: a relay that shuffles needs both",
        ),
        ("--gateway http://c OVERSTORY_RELAY_TLS_KEY=k", "tls_certificate and tls_key belong together"),
        ("--gateway http://c --port 70000", "ports are 0 .. 65535"),
        ("--gateway http://c OVERSTORY_RELAY_PER_HOUR=0", "OVERSTORY_RELAY_PER_HOUR=0: give 1 to 1,048,576"),
        ("--gateway http://c OVERSTORY_RELAY_PER_RELEASE=0", "OVERSTORY_RELAY_PER_RELEASE=0: give 1 to 1,048,576"),
        (
            "--gateway http://c OVERSTORY_RELAY_PER_HOURS=9",
            "there is no such setting; did you mean OVERSTORY_RELAY_PER_HOUR?",
        ),
        (f"{SHUFFLING}t OVERSTORY_RELAY_LEAST=1", "give 2 <= least <= capacity"),
        (f"{SHUFFLING}t OVERSTORY_RELAY_EVERY=soon", "a number with s, m, h or d"),
        (f"{SHUFFLING}t OVERSTORY_RELAY_EVERY=40d", "shorter than every = 40d"),
        (f"{SHUFFLING}t OVERSTORY_RELAY_EVERY=0s OVERSTORY_RELAY_AT_MOST=1s", "1s: give at least 2s"),
        (f"{SHUFFLING}t", "other users can read this token: chmod 600 t"),
        (f"{SHUFFLING}empty", "empty: it is empty"),
        (
            "--gateway http://c OVERSTORY_RELAY_TLS_CERTIFICATE=t OVERSTORY_RELAY_TLS_KEY=t",
            "t: no certificate and key that belong together",
        ),
        ("--config relay.toml", "relay.toml: most_bytes: give 1 to 16,777,216"),
    ],
    "reproduce --quick -o out": [
        ("figure-99", "rappor-75-of-100"),
        ("rappor-75-of-100 --all", "give --all, or names"),
    ],
    "simulate --registry colour.toml": [
        ("--devices 5", "the following arguments are required: --store"),
        ("--devices 0 --store a.db", "--devices 0: give a whole number from 1 to 10,000,000"),
        ("--devices 5 --periods 9 --store a.db", "--periods 9: a collector takes reports of colour"),
        ("--devices 5 --store http://127.0.0.1:9", "is a collector running there?"),
        ("--devices 5 --store http://", "server = 'http://': give an address such as"),
        ("--devices 5 --store no/such/folder/a.db", "no/such/folder"),
        ("--devices 5 --years 11 --store a.db", "--years 11: give a whole number from 1 to 10"),
        (
            "--devices 5 --years 2 --store http://127.0.0.1:9",
            "--years 2: a running collector takes no reports of years past",
        ),
        ("--devices 5 --store a.db --registry strings.toml", "give --candidates FILE, one a line"),
    ],
    "store": [
        ("summary no.db", "no.db: there is no such store; make it first: overstory store create no.db"),
        ("summary energy.toml", "sqlite:///energy.toml: this file is not a SQLite database"),
        ("tokens reports.db --revoke beef", "there is no token beef"),
        (f"{TOKEN} soon", "--expires soon: give a date such as 2027-11-21"),
        (f"{TOKEN} 2027-W47", "--expires 2027-W47: give a date such as 2027-11-21"),
        (f"{TOKEN} 2020-01-01", "would be refused at once"),
        ("create .", "this is a folder; name a file in it, such as reports.db"),
        ("backup reports.db params.csv", "params.csv: this file exists: give the backup another name"),
    ],
}
"""Its state and its file, which it opens before it reads."""
LINES = [(f"{command} {rest}".strip(), says) for command, rows in REFUSED.items() for rest, says in rows]


@pytest.mark.parametrize(("line", "says"), LINES)
def test_what_cannot_be_done_is_one_sentence_and_writes_nothing(folder, monkeypatch, line, says):
    for name in ("DO_NOT_TRACK", "OVERSTORY", "OVERSTORY_WRITE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    before = {path.name for path in folder.iterdir()}
    ran = within(*shlex.split(line), cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("overstory")
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert {path.name for path in folder.iterdir()} - {"meter"} == before - {"meter"}
