"""nginx of this machine, with a configuration of the examples."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FRAME = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors emerg;
events {{ worker_connections 256; }}
http {{
client_body_temp_path {folder}/bodies; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
{server}
}}
"""


def nginx() -> str:
    """Return the path of nginx; without it, skip the test, or fail it where OVERSTORY_NGINX=required."""
    path = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if path is not None:
        return path
    why = "there is no nginx: on Debian and Ubuntu, `apt install nginx-light` installs it"
    if os.environ.get("OVERSTORY_NGINX") == "required":
        pytest.fail(f"OVERSTORY_NGINX=required, but {why}")
    pytest.skip(why)


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


@contextmanager
def running(folder: Path, server: str, port: int) -> Iterator[tuple[str, int]]:
    """Run nginx with these servers, one of which listens on the port; gives its address."""
    (folder / "nginx.conf").write_text(FRAME.format(folder=folder, server=server))
    command = [nginx(), "-p", str(folder), "-e", str(folder / "errors"), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            ends = time.monotonic() + 60
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < ends
                time.sleep(0.05)
            yield "127.0.0.1", port
        finally:
            process.terminate()
            process.stderr.read()
