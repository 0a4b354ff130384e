"""File formats byte by byte."""

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
    for name in ("few-reports.csv", "few-reports.parquet"):
        run(place, f"encode --params keyed.csv --values few.csv --seed 3 -o {name} --quiet")
    return "".join(
        (
            (place / "few-reports.csv").read_text("utf-8"),
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
