"""What the store of a collector holds: estimates from its file, its upkeep, its copies."""

from device_scenes import schema
from http_scenes import collected
from stage import play_frozen, run, scene

KEPT = "--registry metrics.toml --store kept.db"


@scene
def decode_of_a_store(place):
    """The same figures from the store's file."""
    collected(place)
    decode = f"decode {KEPT} --metric"
    return "".join(
        (
            run(place, f"{decode} colour --json --all"),
            run(
                place,
                f"{decode} colour --aggregate cumulative -o read --json",
                "read/estimates.csv",
                "read/estimates.json",
            ),
            run(place, f"{decode} colour --aggregate per-period --steps base-cut,norm-sub --to 2026-11-19 --json"),
            run(place, f"{decode} tree --method lasso --reports-per-device 2 --json"),
            run(place, f"{decode} tree --candidates names.txt --all --json"),
            run(place, f"{decode} tabs --json"),
            run(place, f"{decode} shape --json"),
        )
    )


@scene
def compare_of_a_store(place):
    """What changed between two ranges of periods, in every form; ranges that cannot be compared."""
    collected(place)
    decode = f"decode {KEPT} --metric colour --compare"
    return "".join(
        (
            run(place, f"{decode} 2026-11-20..2026-11-21 2026-11-18"),
            run(place, f"{decode} 2026-11-20..2026-11-21 2026-11-18 --json -o read", "read/comparison.csv"),
            run(place, f"{decode} 2026-11-19..2026-11-21 2026-11-18..2026-11-20"),
        )
    )


@scene
def stores(place):
    """A store's upkeep and its copies."""
    collected(place)
    texts = play_frozen(
        place,
        "store summary kept.db --json",
        "store compact kept.db --json",
        "store summary kept.db --json",
        "store backup kept.db monday.db --json",
        "store restore monday.db again.db --json",
        "store summary again.db --json",
        "doctor --registry metrics.toml --store kept.db --json",
    )
    return "".join((*texts, "--- schema\n", schema(place / "kept.db")))
