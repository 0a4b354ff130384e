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

from overstory.cli.service.commands import COMMANDS, CONSOLE_SETTINGS, SERVE, SERVE_SETTINGS
from overstory.cli.service.settings import fill_in
from overstory.client.state.files import StatePaths
from overstory.client.state.state import State
from overstory.protocol.errors import OverstoryError
from overstory.protocol.wire.upload import decode_uploads
from support import relays
from support.gateway_samples import registry_text
from support.running import done, overstory, within

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
VARIABLES = {setting.variable for setting in SERVE_SETTINGS}


def instructions():
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def of(kind):
    return [rest for name, rest in instructions() if name == kind]


def test_the_image_runs_as_nobody_in_particular_from_what_the_repository_has():
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
    asked = json.loads(of("HEALTHCHECK")[0].partition("CMD ")[2])
    assert asked[:2] == ["python", "-c"]
    nobody_there = {"OVERSTORY_PORT": "1"}
    assert subprocess.run([sys.executable, *asked[1:]], check=False, env=nobody_there, capture_output=True).returncode
    (line,) = of("ENV")
    values = dict(pair.split("=", 1) for pair in line.split())
    assert {name for name in values if name.startswith("OVERSTORY_")} <= VARIABLES
    args = settings_of({name: value for name, value in values.items() if name in VARIABLES})
    assert (args.host, args.port) == ("0.0.0.0", int(of("EXPOSE")[0]))


def settings_of(environ, *options):
    parser = argparse.ArgumentParser()
    COMMANDS["serve"].add_to(parser.add_subparsers())
    args = parser.parse_args(["serve", *options])
    fill_in(args, SERVE_SETTINGS, environ)
    return args


def test_the_compose_file_joins_what_there_is():
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


def unit_of(name):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / name)
    return unit


def given_up(name):
    rights = re.compile(r"(Protect|Restrict|Private|System|NoNew|Capability)")
    return {line for line in (DEPLOY / name).read_text().splitlines() if rights.match(line)}


def test_the_unit_is_sound_and_starts_what_there_is(tmp_path):
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


def test_the_settings_file_is_read():
    args = settings_of({}, "--config", str(DEPLOY / "serve.toml"))
    assert (args.port, args.store) == (8000, "/var/lib/overstory/reports.db")


def test_the_proxy_s_block_is_the_page_s_and_keeps_its_connections():
    page = (ROOT / "docs" / "how-to" / "collector.md").read_text()
    (block,) = re.findall(r"```nginx\n(.*?)```", page, re.DOTALL)
    alone = (DEPLOY / "nginx.conf").read_text()
    assert alone == block
    assert (DEPLOY / "nginx-compose.conf").read_text() == block.replace("127.0.0.1:8000", "collector:8000")
    assert block.count("{") == block.count("}")
    assert re.search(r"upstream collector \{[^}]*keepalive 64;", block)
    assert "access_log off;" in block


def test_the_console_s_settings_are_read_and_its_unit_is_the_collector_s_but_for_what_differs():
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


def test_the_unit_of_a_relay_starts_one_and_has_no_more_rights_than_a_collector(tmp_path):
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


def test_the_compose_file_of_a_relay_starts_one_on_a_read_only_system(tmp_path):
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
def test_the_commands_of_the_image_make_a_collector_that_serves(tmp_path):
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
        assert process.stdout.readline().startswith("listening on http://127.0.0.1:")
        process.terminate()
    assert process.returncode == 0


# `serve` is configured by its command line, the environment or a file
def settings(*options, **environ):
    parser = argparse.ArgumentParser()
    SERVE.add_to(parser.add_subparsers())
    args = parser.parse_args(["serve", *options])
    fill_in(args, SERVE_SETTINGS, {f"OVERSTORY_{name}": value for name, value in environ.items()})
    return args


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text('host = "a"\nport = 1\ncompact-every = 7\nopen-writes = true\ntls_key = "key.pem"\n')
    args = settings("--config", str(file), "--host", "c", HOST="b", PORT="2")
    assert (args.host, args.port, args.compact_every, args.open_writes) == ("c", 2, 7.0, True)
    assert (args.tls_key, args.grace, args.store) == (Path("key.pem"), 1.0, None)
    assert settings("--no-open-writes", CONFIG=str(file)).open_writes is False
    assert settings(OPEN_WRITES="0", CONFIG=str(file)).open_writes is False


def test_every_option_is_a_variable_and_a_key(tmp_path):
    examples = {str: "x", int: "3", float: "0.5", bool: "1", Path: "file"}
    for setting in SERVE_SETTINGS:
        text = examples[setting.kind]
        by_variable = getattr(settings(**{setting.key.upper(): text}), setting.key)
        written = "true" if setting.kind is bool else text if setting.kind in {int, float} else repr(text)
        (tmp_path / "one.toml").write_text(f"{setting.key} = {written}")
        assert by_variable == getattr(settings("--config", str(tmp_path / "one.toml")), setting.key)
        assert by_variable not in {setting.default, None}


def test_variables_of_others_are_left_alone():
    args = settings(
        STATE="folder", ADMIN_TOKEN="t", SERVICE_HOST="10.0.0.1", SERVICE_PORT="80", PORT="tcp://10.0.0.1:8000",
        RELAY_PORT="1", CONSOLE_HOST="c",
    )  # fmt: skip
    assert args.port == 8000  # Kubernetes sets OVERSTORY_PORT for a service of that name


def test_a_setting_that_few_need_is_listed_by_the_help_and_is_no_option(tmp_path):
    shown = within("serve", "--help", cwd=tmp_path).stdout
    assert re.search(
        r"^  grace +seconds of refusing reports before it stops listening \(default: 1\)$", shown, re.MULTILINE
    )
    refused = within("serve", "--grace", "1", cwd=tmp_path)
    assert (refused.returncode, "there is no option --grace" in refused.stderr) == (2, True)


def test_what_is_needed_is_named_with_every_place_for_it(monkeypatch):
    monkeypatch.delenv("OVERSTORY_STORE", raising=False)
    parser = argparse.ArgumentParser()
    SERVE.add_to(parser.add_subparsers())
    with pytest.raises(OverstoryError, match="--store must be given, or OVERSTORY_STORE, or store in the --config"):
        fill_in(parser.parse_args(["serve", "--registry", "metrics.toml"]), SERVE_SETTINGS, {}, needed=2)


# gateway as a command: what it prints, where reports go, and what is refused
ROWS = "".join(f"2026-10-2{d}T{h:02}:00,0.{h:02}\n" for d in (4, 5) for h in range(24))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.toml").write_text(registry_text())
    (tmp_path / "readings.csv").write_text(f"time,value\n{ROWS}")
    return tmp_path


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    for name in ("DO_NOT_TRACK", "OVERSTORY", "OVERSTORY_WRITE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


GATEWAY = ("gateway", "--metric", "energy", "--registry", "metrics.toml", "--state", "meter")
FILE = (*GATEWAY, "--readings", "readings.csv", "--server", "http://127.0.0.1:9")


def test_a_collector_that_is_not_there(folder):
    out = done(folder, *FILE, "--agree", "on").stdout
    assert "0 handed over, 0 refused, 48 waiting (no connection" in out


def test_a_stream_as_a_process(folder):
    args = (*GATEWAY, "--readings", "-", "--agree", "local", "--json")
    ran = overstory(*args, cwd=folder, CI="true")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["lines"]["read"] == 0


def test_a_gateway_names_its_group_and_goes_on_with_its_file(folder):
    groups = 'groups = {by = "grid", shares = {"north-1" = 0.5, "south" = 0.4}, devices = 90000}'
    (folder / "metrics.toml").write_text(registry_text().replace("[metrics.fixed]", f"{groups}\n[metrics.fixed]"))
    done(folder, *FILE, "--agree", "on", "--group", "north-1")
    (folder / "readings.csv").write_text(f"time,value\n{ROWS}2026-10-26T00:00,0.5\n2026-10-26T01:00,0.5\n")
    done(folder, *FILE)
    with State(StatePaths(folder / "meter")).snapshot() as rows:
        uploads = decode_uploads(b"".join(row.body for row in rows.outbox.rows()), 99)
    assert [upload.group for upload in uploads].count("north-1") == 48
    assert {upload.group for upload in uploads[48:]} == {"other"}
    assert len(uploads) > 48, "the file with groups was read to its end"
    error = done(folder, *FILE, "--group", "east", status=2).stderr
    assert "there is no group 'east': the groups are north-1, south, other" in error
