"""Law 8: parameters are frozen, have a canonical form and a digest; what cannot be honoured is refused in one error.

Mechanisms travel between processes: pickled and copied they are equal, draw alike, and are as frozen.
"""

import copy
import dataclasses
import json
import math
import pickle
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest

from overstory.client import Randomizer
from overstory.protocol.channels import BinaryChannel, Rounds, SymbolChannel
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import canonical, digest
from overstory.protocol.kinds.bits import Bloom, OneHot
from overstory.protocol.kinds.hashes import BalancedHash
from overstory.protocol.kinds.registry import REGISTRY, any_mechanism, mechanism
from overstory.protocol.sampling import SeededEntropy
from support.contract_cases import SMALL, SMALL_CASES, TYPICAL, TYPICAL_CASES, Case, domain_of, some_values

ALL_CASES = SMALL_CASES + TYPICAL_CASES


def parts_of(whole):
    held = [getattr(whole, field.name) for field in dataclasses.fields(whole)]
    held += [whole.hashes] if isinstance(whole, Bloom) else []
    return [whole, *(part for one in held if dataclasses.is_dataclass(one) for part in parts_of(one))]


@pytest.mark.parametrize("table", [SMALL, TYPICAL], ids=["SMALL", "TYPICAL"])
def test_every_mechanism_is_under_contract(table):
    assert set(table) == set(REGISTRY), "give each registry name its parameters in tests/support/contract_cases.py"
    assert all(table.values()), "an empty table tests nothing"
    assert [case for case in ALL_CASES if case.build().name != case.name] == []


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_nothing_can_be_assigned(case):
    built = case.build()
    for part in parts_of(built):
        for name in [field.name for field in dataclasses.fields(part)] + ["unheard_of"]:
            with pytest.raises(AttributeError):
                setattr(part, name, 0)
    with pytest.raises(TypeError):
        built.parameters["f"] = 0.9


CHANGES = {
    "num_bits": 17, "num_hashes": 4, "num_cohorts": 6, "domain_size": 11, "f": 0.37, "p": 0.31, "q": 0.69,
    "hash_key": "another metric", "hash_family": "google-rappor-python", "epsilon": 1.25, "epsilon_permanent": 2.5,
    "epsilon_report": 0.75, "window": 3, "sampled_bits": 3,
    "field_size": 5, "num_seeds": 128, "hash_bits": 5,
}  # fmt: skip


def changed(case):
    for name in case.build().parameters:
        old = case.build().parameters[name]
        if old is None or (name == "hash_key" and "hash_family" in case.parameters):
            continue
        if name == "hash_key" and isinstance(case.build().encoding, BalancedHash):  # which has no pseudo-random part
            continue
        new = "overstory-v1" if name == "hash_family" and old != "overstory-v1" else CHANGES[name]
        if name == "hash_family" and case.build().payload_bits > 32:
            continue
        yield name, Case(case.name, {**case.parameters, name: new})


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_any_parameter_changes_the_digest(case):
    digests = {case.build().digest}
    for count, (name, other) in enumerate(changed(case), start=2):
        digests.add(other.build().digest)
        assert len(digests) == count, name


INTEGERS = {"domain": "integers", "bits": 5}
OTHERS = {
    **{name: {"domain_size": 10, "most": 3, "epsilon": 1.0} for name in ("padding-and-sampling", "item-bits")},
    "divided": {"oracle": "grr", "epsilon": 1.0, "sizes": "3 2", "tables": "0 1, 0"},
    "prefix-search": {"values": INTEGERS, "epsilon": 1.0, "step": 2, "beam": 2, "known": ["4"]},
}
"""Of the kinds that are no oracles, a mechanism each; below, other values of its parameters."""
OTHER_CHANGES = {
    "padding-and-sampling": {"domain_size": 11, "most": 4, "epsilon": 1.25, "length": 1, "inner": "olh"},
    "item-bits": {"domain_size": 11, "most": 4, "epsilon": 1.25},
    "divided": {"oracle": "oue", "epsilon": 1.25, "sizes": "3 3", "tables": "0 1"},
    "prefix-search": {
        "values": {"domain": "integers", "bits": 6}, "epsilon": 1.25, "known": ["1"], "known_share": 0.4, "step": 3,
        "beam": 3, "hash_key": "another",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_any_parameter_of_another_kind_changes_the_digest_and_nothing_can_be_assigned(name):
    base, changes = any_mechanism(name, **OTHERS[name]), OTHER_CHANGES[name]
    others = {any_mechanism(name, **OTHERS[name] | {key: new}).digest for key, new in changes.items()}
    assert len(others - {base.digest}) == len(changes)
    with pytest.raises(AttributeError):
        base.epsilon = 2.0
    with pytest.raises(TypeError):
        base.parameters["epsilon"] = 9


def test_a_field_is_the_same_however_it_was_chosen():
    size = {"domain_size": 16, "epsilon": 1.0}
    chosen, prime = mechanism("projective", **size), mechanism("projective", **size, field_size=3)
    assert chosen.encoding.field_size == 4
    assert chosen.digest == mechanism("projective", **size, field_size=4).digest != prime.digest
    assert chosen.canonical()["polynomial"] == 7
    assert "polynomial" not in prime.canonical(), "a prime says all of its field"


def test_mechanisms_of_equal_shape_differ_by_name():
    one = mechanism("basic-rappor", domain_size=4, f=0.0, p=0.5, q=0.75)
    two = mechanism("basic-rappor-one-time", domain_size=4, p=0.5, q=0.75)
    assert one.channel == two.channel
    assert one.digest != two.digest


# Known answers: a change here changes what every stored report is labelled with.
CANONICAL = (
    '{"encoding":"bloom","hash_family":"overstory-v1","hash_key":"","name":"rappor","num_bits":128,"num_cohorts":16,'
    '"num_hashes":2,"thresholds":[[3221225472,1073741824],[3221225472,2147483648]]}'
)
DIGEST = "d0057283666b2cdadce5de5b70d32fce"


def test_the_canonical_form_and_the_digest_are_for_ever():
    built = mechanism("rappor")
    assert canonical(built.canonical()) == CANONICAL
    assert built.digest.hex() == DIGEST
    script = "from overstory.protocol.kinds.registry import mechanism; print(mechanism('rappor').digest.hex())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == DIGEST


def test_the_canonical_form_has_one_spelling():
    assert canonical({"b": [1], "a": "é"}) == canonical({"a": "é", "b": [1]})
    assert json.loads(canonical(mechanism("rappor").canonical()))["num_bits"] == 128
    assert digest({"a": 1}) != digest({"a": "1"})
    with pytest.raises(ValueError, match="JSON"):
        canonical({"a": math.nan})


NUMBERS = (-0.1, 1.1, math.nan, math.inf, -math.inf, True, "0.5", b"x", 1j, [0.5])
COUNTS = (0, -1, 2**17, 2.0, True, "3", math.nan, None)
EPSILONS = (0, -1.0, math.nan, math.inf, True, "1")
SIZES = (0, 1, 2.0, True, "9")
# By parameter: what it never takes, and what the message says then.
BAD = {
    **dict.fromkeys("fpq", (NUMBERS, "from 0 to 1")),
    **dict.fromkeys(("num_bits", "num_hashes", "num_cohorts"), (COUNTS, "(whole number from|fewer)")),
    **dict.fromkeys(("epsilon", "epsilon_permanent", "epsilon_report"), (EPSILONS, "above 0")),
    "domain_size": (SIZES, ""),
    "window": ((0, -1, 2.0, True, "3", math.nan, None), "from 1"),
}
SIZE, ROUNDS, GOOGLE = {"domain_size": 9}, {"p": 0.5, "q": 0.75}, {"hash_family": "google-rappor-python"}
LARGE = SIZE | {"epsilon_permanent": 800.0, "epsilon_report": 750.0}


def refusals_of_each_parameter():
    for case in TYPICAL_CASES:
        given = {name: value for name, value in case.build().parameters.items() if value is not None}
        for name, (bad, words) in BAD.items():
            if name not in given:
                continue
            yield from ((case.name, given | {name: one}, f"{name}.* = .*{words}") for one in bad)
        if "domain_size" in case.parameters and domain_of(case.build()) and case.name not in ANY_VALUES:
            without = {name: value for name, value in case.parameters.items() if name != "domain_size"}
            yield case.name, without, "needs the parameter domain_size"
        if {"epsilon_permanent", "epsilon_report"} <= given.keys():
            yield case.name, given | {"epsilon_report": given["epsilon_permanent"]}, "must be below epsilon_permanent"


def refusals():
    yield "rapor", {}, "no mechanism 'rapor'; did you mean rappor. choose one of .*rappor"
    yield from refusals_of_each_parameter()
    for name, size in (("rappor", {}), ("basic-rappor", SIZE)):
        yield name, size | {"f": 1}, "f = 1 .*give f below 1"
        yield name, size | {"p": 0.5, "q": 0.5}, "p = q = 0.5.*give different"
        yield name, size | {"p": 0.5, "q": 0.5 + 1e-12}, "p = q"
        yield name, size | {"f": 0, "p": 0, "q": 0.5}, "raise f or p, or lower q"
        one_time = f"{name}-one-time"
        yield from ((one_time, size | {"f": end}, "f = .*above 0.*below 1") for end in (0, 1))
        for halves in ({}, {"p": 0.5}, {"q": 0.5}, {"f": 0.5, "p": 0.5, "q": 0.75}, {"f": 0.5, "p": 0.5}):
            yield one_time, size | halves, "give either f, or both p and q"
        yield one_time, size | {"p": 0.25, "q": 0.25}, "p = q = 0.25.*give different"
        yield one_time, size | {"p": 0.0, "q": 0.5}, "give the value away"
    for name in ("rappor", "rappor-one-time"):
        yield name, ROUNDS | {"num_bits": 4, "num_hashes": 4}, "num_hashes .*4 does not fit num_bits .*fewer"
        yield name, ROUNDS | {"hash_family": "md5"}, "no hash family 'md5': choose one of overstory-v1, google"
        yield name, ROUNDS | {"hash_key": 5}, "hash_key = 5.*string"
        yield name, ROUNDS | {"hash_key": "k" * 65}, "hash key has at most 64 bytes"
        yield name, ROUNDS | GOOGLE | {"num_hashes": 17, "num_bits": 32}, "num_hashes .*from 1 to 16"
        yield name, ROUNDS | GOOGLE | {"hash_key": "x", "num_bits": 16}, "takes no key"
    yield "rappor", GOOGLE | {"num_bits": 64}, "at most 32, not 64.*overstory-v1"
    for name in ("basic-rappor", "basic-rappor-one-time"):
        yield name, ROUNDS | {"domain_size": 2**16}, "domain_size = .*from 2 to 65535"
    yield "basic-rappor", SIZE | {"num_bits": 4}, "has no parameter num_bits: it takes domain_size"
    for name in ("l-grr", "loloha"):
        yield name, LARGE, "epsilon_permanent = 800.0.*below 700"
    yield "grr", SIZE | {"epsilon": None}, "epsilon = None.*above 0"
    yield "subset", SIZE | {"epsilon": 1.0, "subset_size": 9}, "subset_size = 9.*from 1 to 8"
    yield "projective", SIZE | {"epsilon": 1.0, "field_size": 6}, "field_size = 6: give a prime"
    yield "projective", SIZE | {"epsilon": 1.0, "field_size": 2048}, "a power of a prime up to 1024"
    yield "dbitflip", SIZE | {"epsilon": 1.0, "sampled_bits": 10}, "sampled_bits = 10.*from 1 to 9"
    yield "olh", {"epsilon": 1.0, "hash_range": 1}, "hash_range = 1.*from 2"
    for name, changed, words in OF_OTHER_KINDS:
        yield name, OTHERS[name] | changed, words


OF_OTHER_KINDS = [
    ("padding-and-sampling", {"length": 4}, "length = 4: give a whole number from 1 to most = 3"),
    ("padding-and-sampling", {"inner": "sue"}, "inner = 'sue': choose one of grr, oue, olh"),
    ("padding-and-sampling", {"most": 11}, "most = 11: give a whole number from 1 to 10"),
    ("item-bits", {"epsilon": 0}, "epsilon = 0: give a number above 0"),
    ("item-bits", {"domain_size": 1}, "domain_size = 1: give a whole number from 2"),
    ("divided", {"oracle": "olh"}, "cannot divide devices with olh"),
    ("divided", {"oracle": "rappor"}, "choose grr, oue, sue or projective"),
    ("divided", {"tables": "0 5"}, "numbers of variables below 2"),
    ("divided", {"tables": "0 0"}, "each once"),
    ("divided", {"sizes": "two"}, "give whole numbers"),
    ("prefix-search", {"epsilon": 0}, "epsilon"),
    ("prefix-search", {"known": ["40"]}, "outside the domain"),
    ("prefix-search", {"known_share": 1.0}, "known_share"),
    ("prefix-search", {"values": {"domain": "colours"}}, "there are no codes 'colours'"),
    ("prefix-search", {"values": {"domain": "integers", "bytes": 3}}, "unexpected keyword argument 'bytes'"),
]


ANY_VALUES = {"blh", "olh", "loloha", "random-matrix"}
"""Oracles that take strings where no size is given."""


@pytest.mark.sampled(100)
@pytest.mark.parametrize(("name", "parameters", "words"), list(refusals()), ids=str)
def test_bad_parameters_get_one_clear_error(name, parameters, words):
    with pytest.raises(ParameterError, match=words):
        any_mechanism(name, **parameters)


@pytest.mark.parametrize("cohort", [-1, 16, 2**16, 1.0, True, "1", math.nan])
def test_a_cohort_that_does_not_exist(cohort):
    built = mechanism("rappor")
    message = r"cohort .* does not exist: cohorts are 0 \.\. 15"
    with pytest.raises(ParameterError, match=message):
        Randomizer(built, secret=bytes(16), metric="m", cohort=cohort)
    with pytest.raises(ParameterError, match=message):
        built.encode("value", cohort)


@pytest.mark.parametrize("symbol", [-1, 4, 1.0, True, "1", None, math.nan])
def test_a_symbol_outside_the_domain(symbol):
    device = Randomizer(mechanism("basic-rappor", domain_size=4), secret=bytes(16), metric="m")
    with pytest.raises(ParameterError, match=r"outside the domain 0 \.\. 3"):
        device.report(symbol)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BinaryChannel(1.5, 0), "keep_one = 1.5"),
        (lambda: BinaryChannel(0.5, -1), "raise_zero = -1"),
        (lambda: BinaryChannel.of(math.nan, 0), "keep_one = nan"),
        (lambda: SymbolChannel(1, Fraction(1, 2)), "domain_size = 1"),
        (lambda: SymbolChannel(2.5, Fraction(1, 2)), "domain_size = 2.5"),
        (lambda: SymbolChannel(2, 2), "alpha = 2"),
        (lambda: SymbolChannel.of(4, epsilon=0), "epsilon = 0"),
        (lambda: SymbolChannel.of(4, epsilon=math.nan), "epsilon = nan"),
        (lambda: SymbolChannel.of(4, epsilon="1"), "epsilon = '1'"),
        (lambda: SymbolChannel.of("4", epsilon=1), "domain_size = '4'"),
        (lambda: OneHot(1), "domain_size = 1"),
        (lambda: Rounds(BinaryChannel.identity(), BinaryChannel.of(0.75, 0.25)).losses(0), "reports = 0"),
        (lambda: mechanism("rappor").epsilon_n(1.5), "reports = 1.5"),
        (lambda: mechanism("rappor").epsilon_n(True), "reports = True"),
    ],
)
def test_the_parts_refuse_too(make, words):
    with pytest.raises(ParameterError, match=words):
        make()


SECRET = bytes(range(32))
BY_HAND = replace(mechanism("subset", domain_size=9, epsilon=1.0), inside=Fraction(3, 4))
"""No parameters make it: a pickled mechanism is itself, and not what another version would make of them."""


def answers(built):
    value = some_values(built, 3)[-1]
    device = Randomizer(built, secret=SECRET, metric="m", entropy=SeededEntropy(1))
    return [device.report(value), device.permanent(value), built.randomize(value, SeededEntropy(2))]


@pytest.mark.sampled(28)
@pytest.mark.parametrize("built", [c.build() for c in ALL_CASES] + [BY_HAND], ids=lambda b: b.name)
def test_a_pickled_mechanism_is_the_same(built):
    before = answers(built)  # what it has computed and kept does not matter
    for again in (pickle.loads(pickle.dumps(built)), copy.deepcopy(built), copy.copy(built)):
        assert again == built
        assert hash(again) == hash(built)
        assert (again.digest, again.canonical()) == (built.digest, built.canonical())
        assert answers(again) == before
        with pytest.raises(TypeError):
            again.parameters["epsilon"] = 9
