"""No signature shows the environment (finding A2): `help` and a notebook's tooltips print every default."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import overstory

LONGEST = 125
SECRET = "correct horse battery staple"

LOOK = """
import importlib, inspect, json, os, pkgutil, sys
import overstory

def signatures(module):
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", None) != module.__name__ or name.startswith("_"):
            continue
        yield name, thing
        if inspect.isclass(thing):
            for inner, method in vars(thing).items():
                if not inner.startswith("_") or inner in ("__init__", "__call__", "__new__"):
                    yield f"{name}.{inner}", getattr(method, "__func__", method)

looked = {}
wanted = tuple(sys.argv[1:])
names = [module.name for module in pkgutil.walk_packages(overstory.__path__, "overstory.")]
names = [name for name in names if name.split(".")[1] in wanted or not wanted]
for name in names:
    if name.endswith("__main__"):
        continue
    module = importlib.import_module(name)
    for thing, what in signatures(module):
        try:
            parameters = inspect.signature(what).parameters.values()
        except (TypeError, ValueError):
            continue
        for parameter in parameters:
            if parameter.default is not parameter.empty:
                looked[f"{name}:{thing}({parameter.name})"] = repr(parameter.default)
json.dump(looked, sys.stdout)
"""


def defaults(*packages: str) -> dict[str, str]:
    """The repr of every default of every public function, class and method, read where a variable is a secret."""
    environ = os.environ | {"DATABASE_PASSWORD": SECRET}
    done = subprocess.run([sys.executable, "-c", LOOK, *packages], env=environ, capture_output=True, check=True)
    shown: dict[str, str] = json.loads(done.stdout)
    here = str(Path(overstory.__file__).parent)  # where the package lies may be in the environment, too
    return {name: default.replace(here, "") for name, default in shown.items()}


ON_A_DEVICE = ("client", "gateway", "protocol", "privacy", "cli")


@pytest.mark.parametrize("packages", [ON_A_DEVICE, pytest.param((), marks=pytest.mark.slow)], ids=["device", "all"])
def test_no_default_shows_the_environment(packages: tuple[str, ...]) -> None:
    shown = defaults(*packages)
    assert shown["overstory.client.client:Client.__init__(environ)"] == "None"
    assert shown["overstory.gateway.gateway:Gateway.__init__(environ)"] == "None"
    looked_at = {name.split(".")[1] for name in shown}
    assert looked_at == set(packages) or looked_at > {"analysis", "client", "collector", "discovery", "kernels"}
    assert {name: default[:40] for name, default in shown.items() if len(default) > LONGEST} == {}
    # Spark is told by a variable to stay on this machine (SPARK_LOCAL_IP): the loopback address is nobody's secret.
    values = ({value for value in os.environ.values() if len(value) >= 8} - {"127.0.0.1"}) | {SECRET}
    assert [name for name, default in shown.items() if any(value in default for value in values)] == []
