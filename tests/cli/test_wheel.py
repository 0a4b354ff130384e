"""What is in the wheel; and that the half of it without extras runs with the standard library alone."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from overstory.protocol.metrics.registry import EXAMPLE

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
READING = "--metric colour --registry metrics.toml --readings read.csv --state meter --agree local --output out"


@pytest.fixture(scope="module")
def site(tmp_path_factory: Any) -> Path:
    """The wheel, built by its own backend and unpacked."""
    folder: Path = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    wheel = wheel_in(folder)
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def alone(site: Path, code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run Python that sees the standard library and the wheel, and nothing else."""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(site)!r})\n{code}"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def overstory(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return alone(site, f"from overstory.cli.main import main; sys.exit(main({list(arguments)!r}))", cwd)


def test_it_holds_every_file_of_the_package(site: Path) -> None:
    here = {
        path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path.relative_to(site) for path in (site / "overstory").rglob("*") if path.is_file()}
    assert there == here
    assert {path.suffix for path in there} > {".py", ".css"}
    assert {path.name for path in site.iterdir() if path.suffix != ".dist-info"} == {"overstory"}


def test_it_asks_for_nothing_unless_an_extra_does(site: Path) -> None:
    (metadata,) = site.glob("overstory-*.dist-info/METADATA")
    required = [line for line in metadata.read_text(encoding="utf-8").splitlines() if line.startswith("Requires-Dist:")]
    assert required
    assert [line for line in required if "extra ==" not in line] == []


def test_the_devices_half_is_the_standard_library_alone(site: Path, tmp_path: Path) -> None:
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
def test_what_needs_an_extra_names_it(site: Path, tmp_path: Path, arguments: Any, extra: str) -> None:
    (tmp_path / "metrics.toml").write_text(EXAMPLE)
    ran = overstory(site, tmp_path, *arguments)
    assert ran.returncode == 2
    assert ran.stderr.endswith(f'pip install ".[{extra}]" in the folder of the source\n')
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.slow
def test_pip_installs_a_command_that_works_once_the_extra_is_there(site: Path, tmp_path: Path) -> None:
    def run(*command: object, status: int = 0) -> str:
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
