"""The first commands of an installed package: a wheel in a fresh virtual environment, an own folder and home."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from support.playing import Newcomer

SOURCE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a newcomer whose environment holds the wheel alone; the libraries are those of this environment."""
    folder = tmp_path_factory.mktemp("install")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=SOURCE, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True, capture_output=True)
    python = folder / "venv" / "bin" / "python"
    wheel = next((folder / "dist").glob("*.whl"))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()
    (folder / "work").mkdir()
    return Newcomer(folder / "work", python.parent), Path(packages) / "libraries.pth"


@pytest.mark.slow
def test_the_first_commands_of_an_installed_package(installed):
    newcomer, libraries = installed
    assert newcomer.shell("overstory --version").startswith("overstory ")
    assert "commands:" in newcomer.shell("overstory --help")
    newcomer.write("trees.csv", "tree\n" + "oak\nash\noak\n" * 200)
    said = newcomer.shell("overstory collect trees.csv --column tree --epsilon 2", status=2)
    assert 'pip install "overstory[analysis]"' in said
    libraries.write_text(sysconfig.get_path("purelib") + "\n")  # as that installs them
    assert "Learned:" in newcomer.shell("overstory collect trees.csv --column tree --epsilon 2")
    where = newcomer.shell("python -c 'import overstory; print(overstory.__file__)'")
    assert str(SOURCE / "src") not in where
