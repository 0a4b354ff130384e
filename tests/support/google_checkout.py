"""Read every file of a google/rappor checkout that is counts, a map, parameters, reports or candidates.

    python tests/support/google_checkout.py CHECKOUT

Run by `make google-rappor-files CHECKOUT=DIR`. Where there is a Python 2, their client is audited as well. The inputs
of its unit tests are taken out of the test programs. Their two-variable files (reports of a string and a flag,
`rappor-vars.csv`, `uvals.csv`) are not read: this project has no estimator of associations.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main(checkout: Path) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sample(checkout / "apps" / "rappor-analysis", folder)
        summed(texts(checkout / "bin" / "sum_bits_test.py"), folder)
        hashed(texts(checkout / "bin" / "hash_candidates_test.py"), folder)
        given(folder, checkout / "tests" / "params.csv")
        audited(checkout, folder)
    return 0


def overstory(folder: Path, *arguments: object) -> str:
    command = [sys.executable, "-m", "overstory", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def sample(app: Path, folder: Path) -> None:
    """Decode the analysis app's own sample, in which 1.25 million reports of 8 cohorts each meet 300 candidates."""
    files = [word for name in ("params", "counts", "map") for word in (f"--{name}", app / f"{name}.csv")]
    said = json.loads(overstory(folder, "decode", *files, "-o", "out", "--json"))
    report(
        f"sample: {said['detected']} of {said['candidates']} detected in {said['reports']:,} reports",
        said["candidates"],
        300,
    )


def summed(test: dict[str, str], folder: Path) -> None:
    (folder / "params.csv").write_text("k,h,m,p,q,f\n16,2,2,0.5,0.75,0.5\n")
    (folder / "reports.csv").write_text(test["CSV_IN"])
    overstory(folder, "sum", "--params", "params.csv", "reports.csv", "-o", "counts.csv")
    report("sum_bits_test.py", (folder / "counts.csv").read_text(), test["EXPECTED_CSV_OUT"].replace("\r", ""))


def hashed(test: dict[str, str], folder: Path) -> None:
    (folder / "params.csv").write_text("k,h,m,p,q,f,hash_family\n16,2,4,0.5,0.75,0.5,google-rappor-python\n")
    (folder / "names.txt").write_text(test["STDIN"])
    overstory(folder, "map", "--params", "params.csv", "--candidates", "names.txt", "-o", "map.csv")
    report("hash_candidates_test.py", (folder / "map.csv").read_text(), test["EXPECTED_CSV_OUT"].replace("\r", ""))


def given(folder: Path, params: Path) -> None:
    """Plan with the parameters of tests/params.csv, which has blanks after its commas."""
    said = json.loads(overstory(folder, "plan", "--params", params, "--reports", 10_000, "--candidates", 100, "--json"))
    report("tests/params.csv", [said["parameters"][letter] for letter in "khm"], [16, 2, 4])


def audited(checkout: Path, folder: Path) -> None:
    """Audit their client in Python 2, with the restart that its responses, derived from the client's name, outlast."""
    python = shutil.which("python2") or shutil.which("python2.7")
    if python is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        sys.stdout.write("tests/rappor_sim.py: not audited, for there is no python2\n")
        return
    (folder / "params.csv").write_text("k,h,m,p,q,f,hash_family\n16,2,8,0.5,0.75,0.5,google-rappor-python\n")
    os.environ["PYTHONPATH"] = str(checkout / "client" / "python")
    options = "--num-bits 16 --num-hashes 2 --num-cohorts 8 -p 0.5 -q 0.75 -f 0.5 -r simple"
    client = [python, checkout / "tests" / "rappor_sim.py", *options.split()]
    declared = ("--params", "params.csv", "--restart", "--reports", 20_000, "--alpha", 1e-6)
    said = json.loads(overstory(folder, "audit", *declared, "--json", "--", *client))
    report(f"tests/rappor_sim.py: epsilon at least {said['epsilon']['lower']:.6f}", said["verdict"], "no fault found")


def texts(program: Path) -> dict[str, str]:
    """Return the texts that a test program assigns to names."""
    statements = ast.parse(program.read_text().replace("xrange", "range")).body
    assigned = [one for one in statements if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant)]
    return {one.targets[0].id: one.value.value for one in assigned if isinstance(one.targets[0], ast.Name)}


def report(what: str, found: object, expected: object) -> None:
    """Print one line, and leave where something is not as expected."""
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")
    sys.stdout.write(f"{what}: as expected\n")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1], "apps").is_dir():
        sys.exit("give the folder of a google/rappor checkout: make google-rappor-files CHECKOUT=DIR")
    sys.exit(main(Path(sys.argv[1]).resolve()))
