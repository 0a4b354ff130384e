"""Parameters for any name of the registry, from the names of the parameters alone."""

import inspect

from overstory.protocol.kinds.registry import REGISTRY, mechanism

BY_NAME = {"domain_size": 6, "epsilon": 1.0, "epsilon_permanent": 2.0, "epsilon_report": 1.0, "window": 3}
ONE_OF = {"rappor-one-time": {"f": 0.5}, "basic-rappor-one-time": {"f": 0.5}}


def some_parameters(name):
    """What the mechanism needs, small."""
    accepted = inspect.signature(REGISTRY[name]).parameters
    needed = {key: BY_NAME[key] for key, p in accepted.items() if p.default is p.empty and key in BY_NAME}
    return needed | ONE_OF.get(name, {})


def some_mechanism(name, **parameters):
    return mechanism(name, **some_parameters(name) | parameters)


def toml_parameters(name):
    """The same as TOML, but for what the domain says."""
    given = {key: value for key, value in some_parameters(name).items() if key != "domain_size"}
    return f"{{{', '.join(f'{key} = {value}' for key, value in given.items())}}}"
