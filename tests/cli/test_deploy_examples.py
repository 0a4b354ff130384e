"""examples/deploy: what an operator copies is read back by its own parsers, and agrees with the program.

No image is built: the tests have no container engine. The commands of the Dockerfile are run in a slow test.
"""

import argparse
import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from overstory.cli.service.commands import COMMANDS, CONSOLE_SETTINGS, SERVE_SETTINGS
from overstory.cli.service.settings import fill_in
from support import relays

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
VARIABLES = {setting.variable for setting in SERVE_SETTINGS}


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions, continued lines joined, comments left out."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def of(kind: str) -> list[str]:
    return [rest for name, rest in instructions() if name == kind]


def test_the_image_runs_as_nobody_in_particular_from_what_the_repository_has() -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {name for name, _ in instructions()} <= known | {"HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert all(re.fullmatch(r"python:3\.\d+-slim( AS \w+)?", base) for base in of("FROM"))
    assert len(of("FROM")) == 2
    assert of("USER") == ["10001"]
    assert any("--uid 10001" in line for line in of("RUN"))
    for line in of("COPY"):
        if not line.startswith("--from"):
            assert all((ROOT / source).exists() for source in line.split()[:-1]), line
    assert [json.loads(line) for line in of("ENTRYPOINT") + of("CMD")] == [["overstory"], ["serve"]]
    assert json.loads(of("HEALTHCHECK")[0].partition("CMD ")[2]) == ["overstory", "serve", "--check"]
    (line,) = of("ENV")
    values = dict(pair.split("=", 1) for pair in line.split())
    assert {name for name in values if name.startswith("OVERSTORY_")} <= VARIABLES
    args = settings_of({name: value for name, value in values.items() if name in VARIABLES})
    assert (args.host, args.port, args.log_format) == ("0.0.0.0", int(of("EXPOSE")[0]), "json")


def settings_of(environ: dict[str, str], *options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    COMMANDS["serve"].add_to(parser.add_subparsers())
    args = parser.parse_args(["serve", *options])
    fill_in(args, SERVE_SETTINGS, environ)
    return args


def test_the_compose_file_joins_what_there_is() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"collector", "db", "proxy"}
    collector = services["collector"]
    assert set(collector["environment"]) <= VARIABLES
    assert collector["environment"]["OVERSTORY_STORE"].endswith("@db/reports")
    assert collector["read_only"]
    assert (collector["cap_drop"], "ports" in collector, "ports" in services["db"]) == (["ALL"], False, False)
    built = (DEPLOY / collector["build"]["context"]).resolve()
    assert (built, (built / collector["build"]["dockerfile"]).is_file()) == (ROOT, True)
    for service in services.values():
        assert ":latest" not in service.get("image", "")
        assert set(service["networks"]) <= set(compose["networks"])
        assert set(service.get("depends_on", ())) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            brought = {"./registry", "./reports.pem", "./reports.key"}  # the operator's own, as the file says
            assert source in compose["volumes"] or source in brought or (DEPLOY / source).is_file(), volume
    assert "password" not in (DEPLOY / "compose.yaml").read_text()


def unit_of(name: str) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / name)
    return unit


def given_up(name: str) -> set[str]:
    """The lines of a unit that give up rights."""
    rights = re.compile(r"(Protect|Restrict|Private|System|NoNew|Capability)")
    return {line for line in (DEPLOY / name).read_text().splitlines() if rights.match(line)}


def test_the_unit_is_sound_and_starts_what_there_is(tmp_path) -> None:
    unit = unit_of("overstory.service")
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    program, *options = service["ExecStart"].split()
    assert program == "/opt/overstory/bin/overstory"
    assert options[:2] == ["serve", "--config"]
    assert (service["DynamicUser"], service["ProtectSystem"], service["NoNewPrivileges"]) == ("yes", "strict", "yes")
    assert service["ExecReload"].split() == ["/bin/kill", "-HUP", "$MAINPID"]
    if shutil.which("systemd-analyze") is not None:
        text = (DEPLOY / "overstory.service").read_text().replace(program, sys.executable)
        (tmp_path / "overstory.service").write_text(text)
        checked = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(tmp_path / "overstory.service")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_settings_file_is_read() -> None:
    args = settings_of({}, "--config", str(DEPLOY / "serve.toml"))
    assert (args.port, args.store) == (8000, "/var/lib/overstory/reports.db")


def test_the_proxy_s_block_is_the_page_s_and_keeps_its_connections() -> None:
    page = (ROOT / "docs" / "how-to" / "collector.md").read_text()
    (block,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    alone = (DEPLOY / "nginx.conf").read_text()
    assert alone == block
    assert (DEPLOY / "nginx-compose.conf").read_text() == block.replace("127.0.0.1:8000", "collector:8000")
    assert block.count("{") == block.count("}")
    assert re.search(r"upstream collector \{[^}]*keepalive 64;", block)
    assert "access_log off;" in block


def test_the_console_s_settings_are_read_and_its_unit_is_the_collector_s_but_for_what_differs() -> None:
    parser = argparse.ArgumentParser()
    COMMANDS["console"].add_to(parser.add_subparsers())
    args = parser.parse_args(["console", "--config", str(DEPLOY / "console.toml")])
    fill_in(args, CONSOLE_SETTINGS, {})
    assert (args.names, args.behind_proxy, args.port) == ("console.example.org", True, 8001)
    assert given_up("overstory.service") == given_up("overstory-console.service") != set()
    service = unit_of("overstory-console.service")["Service"]
    assert service["StandardOutput"] == "null", "a journal must not hold the administrator's link"
    proxy = (DEPLOY / "console-nginx.conf").read_text()
    assert proxy.count("{") == proxy.count("}")
    assert args.names in proxy
    assert f"127.0.0.1:{args.port}" in proxy


def test_the_unit_of_a_relay_starts_one_and_has_no_more_rights_than_a_collector(tmp_path) -> None:
    service = unit_of("overstory-relay.service")["Service"]
    program, *command = shlex.split(service["ExecStart"])
    assert program == "/opt/overstory/bin/overstory"
    text = (DEPLOY / "overstory-relay.service").read_text()
    variables = re.findall(r"^Environment=(.*)$", text, re.MULTILINE)
    given = {f"%d/{line.partition(':')[0]}" for line in re.findall(r"LoadCredential=(.*)", text)}
    assert {word.partition("=")[2] for word in variables if "%d" in word} == given
    settings = relays.settings_of([*command, *variables], tmp_path)
    assert (settings.gateway, settings.trust_forwarded) == ("https://collector.example.org", False)
    assert str(settings.shuffling.spool).startswith(f"/var/lib/{service['StateDirectory']}/")
    assert service["LimitCORE"] == "0", "a core dump holds addresses"
    assert given_up("overstory.service") <= given_up("overstory-relay.service")


def test_the_compose_file_of_a_relay_starts_one_on_a_read_only_system(tmp_path) -> None:
    compose = yaml.safe_load((DEPLOY / "relay-compose.yaml").read_text())
    (service,) = compose["services"].values()
    variables = service["environment"]
    settings = relays.settings_of([*service["command"], *map("=".join, variables.items())], tmp_path)
    assert (settings.gateway, settings.trust_forwarded) == ("https://collector.example.org", False)
    mounted = dict(volume.split(":")[1::-1] for volume in service["volumes"])
    assert mounted[str(settings.shuffling.spool.parent)] in compose["volumes"], "what waits outlives the container"
    assert set(variables.values()) <= set(mounted)
    assert (service["read_only"], service["cap_drop"], service["ulimits"]["core"]) == (True, ["ALL"], 0)
    built = (DEPLOY / service["build"]["context"]).resolve()
    assert (built / service["build"]["dockerfile"]).is_file()


@pytest.mark.slow
def test_the_commands_of_the_image_make_a_collector_that_serves(tmp_path) -> None:
    for name in of("COPY")[:3]:
        *sources, target = name.split()
        for source in sources:
            copied = tmp_path / "src" / (target.removeprefix("./") or ".")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, copied, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                copied.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, copied)
    first = instructions()[: [name for name, _ in instructions()].index("FROM", 1)]
    for line in [rest for name, rest in first if name == "RUN"]:
        here = line.replace("/opt/overstory", str(tmp_path / "opt"))
        here = re.sub(r"^python ", f"{sys.executable} ", here)
        ran = subprocess.run(["sh", "-ec", here], cwd=tmp_path / "src", capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    for file in (ROOT / "examples").iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    environ = {"OVERSTORY_REGISTRY": "metrics.toml", "OVERSTORY_STORE": "reports.db", "OVERSTORY_PORT": "0"}
    command = [str(tmp_path / "opt" / "bin" / "overstory"), *json.loads(of("CMD")[0])]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on http://127.0.0.1:")
        process.terminate()
    assert process.returncode == 0
