"""What does not go together is data of a command: each rule is of options that the command has, and is held."""

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from overstory.cli.analysis import commands as analysis
from overstory.cli.arguments import Command, Form, Forms, Idle, Needs, OneOf, Option, Rule, Together
from overstory.cli.rappor import commands as rappor
from overstory.cli.registry import commands as registry
from overstory.cli.service import commands as service
from overstory.protocol.errors import ParameterError


def each(commands: Any) -> Iterator[Command]:
    for command in commands:
        yield command
        yield from each(command.actions)


EVERY = list(each(c for module in (analysis, rappor, registry, service) for c in module.COMMANDS.values()))
RULED = [pytest.param(command, rule) for command in EVERY for rule in command.rules]


def named(rule: Rule) -> set[str]:
    if isinstance(rule, Forms):
        return {name for form in rule.forms for name in (*form.chosen, *form.needs, *form.takes)}
    return {*rule.options, *getattr(rule, "others", ())}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("command", "rule"), RULED)
def test_a_rule_is_of_options_that_the_command_has(command: Command, rule: Rule) -> None:
    assert named(rule) <= {option.shown for option in command.options}


@pytest.mark.parametrize(
    ("rule", "given", "says"),
    [
        (Needs(("--a", "--b"), ("--c",), "it is of c"), ["--b"], "--b has no effect without --c: it is of c"),
        (Needs(("--a",), ("--c", "--d")), ["--a"], "--a has no effect without --c or --d"),
        (Needs(("--a",), ("--c", "--d")), ["--a", "--d"], None),
        (Idle(("--a",), ("--b", "--c")), ["--a", "--c"], "--a has no effect with --c"),
        (Idle(("--a",), ("--b",)), ["--a"], None),
        (OneOf(("--a", "--b")), ["--a", "--b"], "--a and --b exclude each other: give one"),
        (OneOf(("--a", "--b")), [], None),
        (OneOf(("--a", "--b"), "a or b", must=True), [], "give one of --a, --b: a or b"),
        (Together(("--a", "--b")), ["--b"], "--a missing: --a and --b belong together"),
        (Together(("--a", "--b")), ["--a", "--b"], None),
    ],
)
def test_a_rule_is_held(rule: Rule, given: list[str], says: str | None) -> None:
    if says is None:
        rule.check(given, argparse.Namespace())
        return
    with pytest.raises(ParameterError) as caught:
        rule.check(given, argparse.Namespace())
    assert str(caught.value) == says


def test_the_first_form_that_is_chosen_says_what_is_missing_and_what_is_idle() -> None:
    rule = Forms(
        Form("in a file", ("FILE",), takes=("--column",)), Form("for needs", needs=("--epsilon",), takes=("--p",))
    )
    args = argparse.Namespace()
    rule.check(["FILE", "--epsilon"], args)
    assert args.form == "in a file"
    rule.check(["--epsilon", "--p", "--json"], args)
    assert args.form == "for needs"
    for given, says in ((["FILE", "--p"], "--p has no effect in a file"), ([], "--epsilon missing for needs")):
        with pytest.raises(ParameterError, match=says):
            rule.check(given, args)


def test_a_default_that_is_given_counts_as_left_out() -> None:
    option = Option("--method", choices=("gls", "lasso"), default="gls")
    given = [option.is_given(argparse.Namespace(method=text)) for text in ("gls", "lasso", None)]
    assert given == [False, True, False]
    number = Option("--overlap", type=float)
    assert [number.is_given(argparse.Namespace(overlap=share)) for share in (None, 0.0)] == [False, True]


def test_every_command_takes_quiet_and_json_where_it_prints_results() -> None:
    silent = {"init", "serve", "console", "relay"}
    for command in EVERY:
        if not command.actions:
            own = argparse.ArgumentParser().add_subparsers()
            command.add_to(own)
            help_text = own.choices[command.name].format_help()
            assert "--quiet" in help_text
            assert ("--json" in help_text) == (command.name not in silent), command.name
