"""All scenes by name, and where what they gave is kept."""

from importlib import import_module
from pathlib import Path

from inputs import write_inputs
from normal import cleaned
from stage import SCENES

for module in ("command", "device", "format", "http", "store"):
    import_module(f"{module}_scenes")  # each adds its scenes

RECORDED = Path(__file__).with_name("recorded")
PLACE = "golden-place"  # the name of the folder that scenes are played in: a rule replaces it


def prepare(place):
    place.mkdir(parents=True)
    write_inputs(place)


def play(name, place):
    """What a scene gives, as it is compared."""
    return cleaned(SCENES[name](place))


def recorded(name):
    return RECORDED / f"{name}.txt"


def unclaimed():
    """Recorded files that belong to no scene."""
    return sorted(path for path in RECORDED.iterdir() if path.stem not in SCENES)
