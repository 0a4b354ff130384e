"""examples/deploy: the unit and the compose file of a relay start what there is, and give up every right."""

import configparser
import re
import shlex
from pathlib import Path

import yaml

from support.relays import settings_of

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
SHUT = re.compile(r"(Protect|Restrict|Private|System|NoNew|Capability)")


def test_the_unit_starts_a_relay_and_has_no_more_rights_than_a_collector(tmp_path):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "overstory-relay.service")
    service = unit["Service"]
    program, *command = shlex.split(service["ExecStart"])
    assert program == "/opt/overstory/bin/overstory"
    settings = settings_of(command, tmp_path)
    assert (settings.gateway, settings.trust_forwarded) == ("https://collector.example.org", False)
    assert str(settings.shuffling.spool).startswith(f"/var/lib/{service['StateDirectory']}/")
    assert service["LimitCORE"] == "0", "a core dump holds addresses"
    units = [(DEPLOY / name).read_text().splitlines() for name in ("overstory.service", "overstory-relay.service")]
    shut = [{line for line in lines if SHUT.match(line)} for lines in units]
    assert shut[0] <= shut[1] != set()


def test_the_compose_file_starts_a_relay_on_a_read_only_system(tmp_path):
    compose = yaml.safe_load((DEPLOY / "relay-compose.yaml").read_text())
    (service,) = compose["services"].values()
    settings = settings_of(service["command"], tmp_path)
    assert (settings.gateway, settings.trust_forwarded) == ("https://collector.example.org", False)
    mounted = dict(volume.split(":")[1::-1] for volume in service["volumes"])
    assert mounted[str(settings.shuffling.spool.parent)] in compose["volumes"], "what waits outlives the container"
    options = dict(option.split("=", 1) for option in service["command"] if "=" in option)
    assert {options[f"--{name}"] for name in ("tls-certificate", "tls-key", "token-file")} <= set(mounted)
    assert (service["read_only"], service["cap_drop"], service["ulimits"]["core"]) == (True, ["ALL"], 0)
    built = (DEPLOY / service["build"]["context"]).resolve()
    assert (built / service["build"]["dockerfile"]).is_file()
