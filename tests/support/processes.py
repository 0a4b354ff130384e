"""Running a piece of a test in another process."""

import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path

TESTS = Path(__file__).parents[1]
NOBODY = 65_534


def in_child(job, *, as_nobody=False, expected=0):
    """Run `job` in a forked child, and fail if it ends otherwise than expected; POSIX only.

    Root is not stopped by file modes: `as_nobody` is.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if as_nobody and os.getuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            job()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent fails for it
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == expected


def start(script, *arguments):
    """Start Python on `script`, which may import what the tests do."""
    paths = str(TESTS), os.environ.get("PYTHONPATH")
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONWARNINGS": "error"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def in_threads(number, work):
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def output_of(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def make_certificate(folder, *, days=2, name="localhost"):
    """Write `certificate.pem` and `key.pem` with openssl, and return the path of the certificate."""
    files = f"-keyout {folder}/key.pem -out {folder}/certificate.pem -addext subjectAltName=DNS:localhost"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -days {days} -subj /CN={name} {files}"
    subprocess.run(command.split(), check=True, capture_output=True)
    return Path(folder) / "certificate.pem"
