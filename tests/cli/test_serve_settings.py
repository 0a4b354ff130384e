"""`serve` is configured by its command line, the environment or a file."""

import argparse
import re
from pathlib import Path

import pytest

from overstory.cli.service.commands import SERVE, SERVE_SETTINGS
from overstory.cli.service.settings import fill_in
from overstory.protocol.errors import OverstoryError
from support.running import within


def settings(*options: str, **environ: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    SERVE.add_to(parser.add_subparsers())
    args = parser.parse_args(["serve", *options])
    fill_in(args, SERVE_SETTINGS, {f"OVERSTORY_{name}": value for name, value in environ.items()})
    return args


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(tmp_path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('host = "a"\nport = 1\ncompact-every = 7\nopen-writes = true\ntls_key = "key.pem"\n')
    args = settings("--config", str(file), "--host", "c", HOST="b", PORT="2")
    assert (args.host, args.port, args.compact_every, args.open_writes) == ("c", 2, 7.0, True)
    assert (args.tls_key, args.grace, args.store) == (Path("key.pem"), 1.0, None)
    assert settings("--no-open-writes", CONFIG=str(file)).open_writes is False
    assert settings(OPEN_WRITES="0", CONFIG=str(file)).open_writes is False


def test_every_option_is_a_variable_and_a_key(tmp_path) -> None:
    examples = {str: "x", int: "3", float: "0.5", bool: "1", Path: "file"}
    for setting in SERVE_SETTINGS:
        text = "json" if setting.choices else examples[setting.kind]
        by_variable = getattr(settings(**{setting.key.upper(): text}), setting.key)
        written = "true" if setting.kind is bool else text if setting.kind in {int, float} else repr(text)
        (tmp_path / "one.toml").write_text(f"{setting.key} = {written}")
        assert by_variable == getattr(settings("--config", str(tmp_path / "one.toml")), setting.key)
        assert by_variable not in {setting.default, None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("compact_evry = 1", "compact_evry: there is no such setting; did you mean compact_every?"),
        ("zebra = 1", "the settings are registry, store, host"),
        ('port = "80"', "field port: give a whole number, not '80'"),
        ("port = true", "field port: give a whole number, not True"),
        ("open_writes = 1", "give true or false, not 1"),
        ("store = 5", "give text, not 5"),
        ('log_format = "xml"', "log_format: give text or json"),
        ("compact-every = 1\ncompact_every = 2", "given twice"),
        ("port = ", "this is not TOML"),
    ],
)
def test_what_a_file_may_not_say(tmp_path, text, said) -> None:
    (tmp_path / "serve.toml").write_text(text)
    with pytest.raises(OverstoryError) as caught:
        settings("--config", str(tmp_path / "serve.toml"))
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "serve.toml"))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PROT", "80", "OVERSTORY_PROT: there is no such setting; did you mean OVERSTORY_PORT?"),
        ("PORT", "many", "OVERSTORY_PORT=many: give a whole number"),
        ("GRACE", "long", "OVERSTORY_GRACE=long: give a number"),
        ("OPEN_WRITES", "maybe", "OVERSTORY_OPEN_WRITES=maybe: give 1 or 0"),
        ("LOG_FORMAT", "xml", "OVERSTORY_LOG_FORMAT=xml: give text or json"),
    ],
)
def test_what_a_variable_may_not_say(name, value, said) -> None:
    with pytest.raises(OverstoryError) as caught:
        settings(**{name: value})
    assert str(caught.value) == said


def test_variables_of_others_are_left_alone() -> None:
    args = settings(
        STATE="folder", ADMIN_TOKEN="t", SERVICE_HOST="10.0.0.1", SERVICE_PORT="80", PORT="tcp://10.0.0.1:8000",
        RELAY_PORT="1", CONSOLE_HOST="c",
    )  # fmt: skip
    assert args.port == 8000  # Kubernetes sets OVERSTORY_PORT for a service of that name


def test_a_setting_that_few_need_is_listed_by_the_help_and_is_no_option(tmp_path) -> None:
    shown = within("serve", "--help", cwd=tmp_path).stdout
    assert re.search(
        r"^  grace +seconds of refusing reports before it stops listening \(default: 1\)$", shown, re.MULTILINE
    )
    refused = within("serve", "--grace", "1", cwd=tmp_path)
    assert (refused.returncode, "there is no option --grace" in refused.stderr) == (2, True)


def test_a_value_out_of_bounds_is_refused_wherever_it_stands(tmp_path) -> None:
    (tmp_path / "serve.toml").write_text("grace = nan\n")
    for given in (
        {"CONFIG": str(tmp_path / "serve.toml")},
        {"GRACE": "-1"},
        {"COMPACT_EVERY": "nan"},
        {"PORT": "65536"},
    ):
        with pytest.raises(OverstoryError, match=r"give a number that is not negative|ports are 0 \.\. 65535"):
            settings(**given)


def test_what_is_needed_is_named_with_every_place_for_it(monkeypatch) -> None:
    monkeypatch.delenv("OVERSTORY_STORE", raising=False)
    parser = argparse.ArgumentParser()
    SERVE.add_to(parser.add_subparsers())
    with pytest.raises(OverstoryError, match="--store must be given, or OVERSTORY_STORE, or store in the --config"):
        fill_in(parser.parse_args(["serve", "--registry", "metrics.toml"]), SERVE_SETTINGS, {}, needed=2)
