"""File formats byte by byte, and estimates through the package's own names."""

from normal import laid_out
from stage import run, scene

PARAMS = "--params params.csv"


@scene
def reports(place):
    """Reports of a few devices in every format."""
    few = "".join((place / "values.csv").read_text("utf-8").splitlines(keepends=True)[:9])
    (place / "few.csv").write_text(few, "utf-8")
    header, row = (place / "params.csv").read_text("utf-8").split()
    (place / "keyed.csv").write_text(f"{header},hash_key\n{row},key\n", "utf-8")
    for name in ("few-reports.csv", "few-reports.ovsb", "few-reports.parquet"):
        run(place, f"encode --params keyed.csv --values few.csv --seed 3 -o {name} --quiet")
    return "".join(
        (
            (place / "few-reports.csv").read_text("utf-8"),
            f"--- packed\n{(place / 'few-reports.ovsb').read_bytes().hex()}\n",
            f"--- Parquet\n{parquet(place / 'few-reports.parquet')}",
        )
    )


def parquet(path):
    """The columns, the metadata of ours and the rows of a Parquet file."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    kept = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    columns = [f"{field.name}: {field.type}\n" for field in table.schema]
    rows = sorted(zip(*(map(_plain, column) for column in table.columns), strict=True))
    return "".join((*columns, laid_out(kept), "\n", laid_out([" ".join(map(str, row)) for row in rows]), "\n"))


def _plain(scalar):
    value = scalar.as_py()
    return value.hex() if isinstance(value, bytes) else value


@scene
def oracles(_):
    """Each registered oracle: its privacy, and an estimate from a simulated collection."""
    import overstory

    values = [n * n % 7 for n in range(700)]
    texts = [f"{laid_out(overstory.oracles())}\n"]
    for name in overstory.oracles():
        given = GIVEN.get(name, MEMOIZED if name.startswith("l-") else ONCE)
        oracle = overstory.oracle(name, **given)
        strings = "num_bits" in given
        held = [f"v{value}" for value in values] if strings else values
        more = {"candidates": [f"v{value}" for value in range(7)]} if strings else {}
        counts = oracle.accumulate(oracle.simulate(held, rng=1, **more))
        estimate = oracle.estimate(counts, **more)
        texts.append(f"{name}: epsilon {oracle.epsilon_report!r}, permanent {oracle.epsilon_permanent!r}\n")
        texts.extend(f"{row.value},{row.raw_count!r},{row.standard_error!r},{row.q_value!r}\n" for row in estimate)
    return "".join(texts)


ONCE = {"epsilon": 2.0, "domain_size": 7}
MEMOIZED = {"epsilon_permanent": 4.0, "epsilon_report": 2.0, "domain_size": 7}
BLOOM = {"num_bits": 16, "num_hashes": 2, "num_cohorts": 4}
GIVEN = {
    "rappor": BLOOM | {"f": 0.25, "p": 0.25, "q": 0.75},
    "rappor-one-time": BLOOM | {"f": 0.25},
    "basic-rappor": {"domain_size": 7, "f": 0.25, "p": 0.25, "q": 0.75},
    "basic-rappor-one-time": {"domain_size": 7, "f": 0.25},
    "opt-dr": {"epsilon_permanent": 4.0, "domain_size": 7},
    "dbitflip": ONCE | {"sampled_bits": 3},
    "wb": ONCE | {"window": 2},
    "opt-wb": ONCE | {"window": 2},
    "blh": ONCE | {"num_seeds": 64},
    "olh": ONCE | {"num_seeds": 64},
    "random-matrix": ONCE | {"num_seeds": 64},
    "loloha": {"epsilon_permanent": 4.0, "epsilon_report": 2.0, "domain_size": 7, "num_seeds": 64},
}
