"""What a command on small input loads: a person waits for imports (`bench/speed_cold.py` times them)."""

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from overstory.cli.main import COMMANDS
from overstory.protocol.metrics.registry import EXAMPLE
from support.running import within

COMPILERS = ("numba", "llvmlite", "matplotlib", "pyarrow", "scipy")
HEAVY = (*COMPILERS, "numpy", "rich", "jinja2", "sqlalchemy", "starlette", "uvicorn")
METRICS = ("overstory.protocol.metrics", "overstory.protocol.kinds")
COMPRESSIONS = ("shutil", "zlib", "bz2", "lzma")
DECODE = "decode --params params.csv --counts counts.csv --map map.csv -o results"
PARAMS = "k,h,m,p,q,f\n16,2,4,0.5,0.75,0.5\n"


def the_bench():
    """The script that times what is looked at here, on the same registry."""
    path = Path(__file__).parents[2] / "bench" / "speed_cold.py"
    spec = importlib.util.spec_from_file_location("speed_cold", path)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    return bench


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cold")
    (path / "trees.csv").write_text("tree,height,person\noak,1.5,a\nash,2,b\noak,3,a\n")
    (path / "names.txt").write_text("oak\nash\nelm\n")
    words = [f"v{i % 60},{i * 1.5},p{i % 40}" for i in range(300)]
    (path / "words.csv").write_text("word,number,person\n" + "\n".join(words) + "\n")
    (path / "params.csv").write_text(PARAMS)
    rows = [f"c{i},{i % 4},{('oak', 'ash')[i % 2]}" for i in range(40)]
    (path / "values.csv").write_text("client,cohort,value\n" + "\n".join(rows) + "\n")
    (path / "metrics.toml").write_text(the_bench().REGISTRY)
    for line in (
        "store create kept.db",
        "local --app ./state --registry metrics.toml",
        "encode --params params.csv --values values.csv --seed 1 -o reports.csv",
        "sum --params params.csv reports.csv -o counts.csv",
        "map --params params.csv --candidates names.txt -o map.csv",
    ):
        assert within(*line.split(), cwd=path).returncode == 0
    return path


STARTER = """
import contextlib, io, os, sys
from overstory.cli.main import main
for line in iter(sys.stdin.readline, ""):
    child = os.fork()
    if child == 0:
        status, shown = None, io.StringIO()
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                status = main(line.split())
        finally:
            names = list(sys.modules)
            import json
            print(json.dumps([status, names, shown.getvalue()]), flush=True)
            os._exit(0)
    os.waitpid(child, 0)
    print(flush=True)
"""
"""A fresh interpreter that has loaded the dispatcher, and runs each line in a process forked from it as it was then."""


class Started:
    def __init__(self, process):
        self._process, self._answers = process, {}

    def loaded(self, line, names):
        if line not in self._answers:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer.strip(), f"{line}: the process ended without an answer"
            assert self._process.stdout.readline() == "\n"
            self._answers[line] = json.loads(answer)
        status, modules, shown = self._answers[line]
        assert status == 0, shown
        return [name for name in names if name in modules]


@pytest.fixture(scope="module")
def started(folder):
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Started(process)
        process.stdin.close()
        assert process.wait(60) == 0


def test_what_a_line_loads_is_not_there_for_the_next(started):
    names = ("overstory.cli.analysis.commands", "overstory.cli.registry.commands")
    assert started.loaded("plan --help", names) == ["overstory.cli.analysis.commands"]
    assert started.loaded("metrics --help", names) == ["overstory.cli.registry.commands"]
    assert started.loaded("--version", ("overstory.cli.main", *names)) == ["overstory.cli.main"]


COLLECT = (
    "trees.csv --column tree",
    "trees.csv --column height --bins 0 4 4",
    "trees.csv --column tree --epsilon 1 --epsilon-permanent 2",
    "words.csv --column word",
    "words.csv --column number",
    "words.csv --column word --epsilon 4",
    "trees.csv --column tree --candidates names.txt --json",
)
LEFT_OUT = [
    # C: 3 rows took 176 times `python -c pass`: numba, pyarrow, matplotlib, scipy for what NumPy does at once
    *((f"collect {line}", COMPILERS) for line in COLLECT),
    # C: where no terminal shows the table, the libraries that draw it and the page took a fourth of the time
    *((f"collect {line}", ("rich", "jinja2")) for line in (COLLECT[0], COLLECT[6])),
    ("encode --params params.csv --values values.csv --seed 1 -o again.csv", COMPILERS),
    ("sum --params params.csv reports.csv -o again-counts.csv", COMPILERS),
    ("map --params params.csv --candidates names.txt -o again-map.csv", COMPILERS),
    # C: writing 40 reports into blocks sorted them by a compiler; Arrow loaded pandas to look at lists of numbers
    ("encode --params params.csv --values values.csv --seed 1 -o blocks.parquet", ("numba", "scipy", "pandas")),
    # C: `discover` of three rows took 244 times `python -c pass`: a compiled transform, and one function of SciPy
    ("discover trees.csv --column tree --bytes 3 --epsilon 4 --seed 1", (*COMPILERS, "numpy.ma")),
    # C: decode took 46 times `python -c pass`: a fifth of a second for SciPy, a twentieth for these
    (DECODE, ("numpy.ma", "numpy.random", "difflib", "html")),
    # C: an empty store is looked at without metrics and mechanisms, a sixth of what `store create` took
    *((f"store {line}", METRICS) for line in ("create another.db --json", "summary kept.db", "tokens kept.db")),
    # C: the top command's help, and each command's, within five times `python -c pass`
    *((line, HEAVY) for line in ("--help", "--version", *(f"{name} --help" for name in COMMANDS))),
    # argparse asks `shutil` how wide a terminal is, at every option; that loads zlib, bz2 and lzma
    *(
        (line, COMPRESSIONS)
        for line in ("--help", "collect --help", "store --help", "metrics lint --help", "--version")
    ),
]


@pytest.mark.parametrize(("line", "left_out"), LEFT_OUT)
def test_a_command_does_without(started, line, left_out):
    assert started.loaded(line, left_out) == []


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("store create new.db --json", ["sqlalchemy"]),
        ("store summary kept.db", ["sqlalchemy"]),
        ("privacy grr --param domain_size=10 --param epsilon=1 --json", []),
        ("privacy loloha --param epsilon_permanent=2 --param epsilon_report=1 --param domain_size=10 --json", []),
        ("plan --epsilon 1 --epsilon-permanent 2 --reports 1000 --candidates 10 --json", []),
        ("metrics lint metrics.toml", []),
        ("metrics diff metrics.toml metrics.toml", []),
        ("metrics show metrics.toml --json", []),
        ("discover trees.csv --column tree --bytes 3 --epsilon 4 --seed 4 --json", ["numpy"]),
        ("compare trees.csv --column tree --epsilon 1 --json", ["numpy"]),
        ("compare words.csv --column word --epsilon 1 --json", ["numpy"]),
        ("status --app ./state --json", []),
        (f"{DECODE} --json", ["numpy"]),
        (DECODE, ["numpy"]),
        (f"{DECODE} --method lasso --json", ["numpy"]),
    ],
)
def test_a_command_loads_what_it_works_with(started, line, allowed):
    assert started.loaded(line, HEAVY) == allowed


def test_every_command_that_ends_by_itself_is_timed():
    """What `bench/speed_cold.py` leaves out is named here, with why."""
    bench = the_bench()
    timed = {line.split()[0] for line in bench.SMALL.values()}
    long = {"serve", "gateway", "demo", "reproduce", "simulate", "console", "relay"}
    of_a_person = {"on", "local", "off", "forget", "view"}  # one module with status, which is timed
    of_a_collector = {"doctor"}  # waits for its answers
    of_files = {"export"}  # of periods that have closed, through Arrow
    assert timed | long | of_a_person | of_a_collector | of_files == set(COMMANDS)


# What is in the wheel; and that the half of it without extras runs with the standard library alone
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
READING = "--metric colour --registry metrics.toml --readings read.csv --state meter --agree local"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    wheel = wheel_in(folder)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def wheel_in(folder):
    (wheel,) = folder.glob("*.whl")
    return wheel


def alone(site, code, cwd):
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(site)!r})\n{code}"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def overstory(site, cwd, *arguments):
    return alone(site, f"from overstory.cli.main import main; sys.exit(main({list(arguments)!r}))", cwd)


def test_it_holds_every_file_of_the_package(site):
    here = {
        path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path.relative_to(site) for path in (site / "overstory").rglob("*") if path.is_file()}
    assert there == here
    assert {path.suffix for path in there} > {".py", ".css"}
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == {"overstory"}


def test_it_asks_for_nothing_unless_an_extra_does(site):
    (metadata,) = site.glob("overstory-*.dist-info/METADATA")
    required = [line for line in metadata.read_text(encoding="utf-8").splitlines() if line.startswith("Requires-Dist:")]
    assert required
    assert [line for line in required if "extra ==" not in line] == []


def test_the_devices_half_is_the_standard_library_alone(site, tmp_path):
    ran = alone(site, "import overstory.client, overstory.gateway, overstory.privacy, overstory.protocol", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    (tmp_path / "metrics.toml").write_text(EXAMPLE)
    (tmp_path / "read.csv").write_text("time,value\n2026-11-21,red\n")
    for arguments in (
        ("--help",),
        ("local", "--app", "./state", "--registry", "metrics.toml"),
        ("status", "--app", "./state"),
        ("view", "--app", "./state"),
        ("forget", "--app", "./state", "--yes"),
        ("metrics", "lint", "metrics.toml"),
        ("privacy", "olh", "--param", "epsilon=1"),
        ("gateway", *READING.split()),
    ):
        ran = overstory(site, tmp_path, *arguments)
        assert (ran.returncode, ran.stderr) == (0, ""), arguments
        assert ran.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("compare", "--domain-size", "10", "--epsilon", "1"), "analysis"),
        (("serve", "--registry", "metrics.toml", "--store", "reports.db"), "server"),
        (("store", "create", "reports.db"), "server"),
    ],
)
def test_what_needs_an_extra_names_it(site, tmp_path, arguments, extra):
    (tmp_path / "metrics.toml").write_text(EXAMPLE)
    ran = overstory(site, tmp_path, *arguments)
    assert ran.returncode == 2
    assert ran.stderr.endswith(f'pip install ".[{extra}]" in the folder of the source\n')
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.slow
def test_pip_installs_a_command_that_works_once_the_extra_is_there(site, tmp_path):
    def run(*command, status=0):
        ran = subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == status, ran.stderr
        return ran.stdout + ran.stderr

    run(sys.executable, "-m", "venv", "venv")
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "overstory"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel_in(site.parent))
    assert run(command, "--version").startswith("overstory ")
    (tmp_path / "trees.csv").write_text("tree\n" + "oak\nash\noak\n" * 200)
    collect = [command, "collect", "trees.csv", "--column", "tree", "--epsilon", "2"]
    assert 'pip install "overstory[analysis] @ file://' in run(*collect, status=2)
    libraries = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    there = [path for path in sys.path if path.endswith("-packages")]  # as that installs them
    (Path(libraries) / "libraries.pth").write_text("\n".join(there) + "\n")
    assert "Learned:" in run(*collect)
    assert str(SOURCE) not in run(python, "-c", "import overstory; print(overstory.__file__)")
