"""Every command's JSON, and the files that it writes."""

from stage import play_frozen, run, run_each, scene

PARAMS = "--params params.csv"


@scene
def files_from_values_to_estimates(place):
    """encode, map, sum, decode: their JSON, and every file on the way."""
    encode, decode = f"encode {PARAMS} --values values.csv --seed 11", f"decode {PARAMS} --counts counts.csv"
    return "".join(
        (
            run_each(place, *(f"{encode} -o reports.{kind} --json" for kind in ("csv", "parquet"))),
            run(place, f"map {PARAMS} --candidates names.txt -o map.csv --json", "map.csv"),
            run(place, f"sum {PARAMS} reports.csv reports.parquet -o twice.csv --json"),
            run(place, f"sum {PARAMS} reports.parquet -o counts.csv --json", "counts.csv"),
            run(
                place, f"{decode} --map map.csv -o results --json --all", "results/results.csv", "results/metrics.json"
            ),
        )
    )


@scene
def decode_of_files_by_choices(place):
    """The paper's method, one that sums to all, intervals of the population, a spreadsheet's CSV, text."""
    files_from_values_to_estimates(place)
    decode = f"decode {PARAMS} --counts counts.csv --map map.csv"
    return run_each(
        place,
        f"{decode} --method lasso --correction bonferroni --alpha 0.01 -o lasso --json",
        f"{decode} --complete --interval population --reports-per-device 2 -o complete --json",
        f"{decode} --all --spreadsheet -o -",
        f"{decode} --all --quiet -o text",
    )


@scene
def google_files(place):
    """The other hash family."""
    header, row = (place / "params.csv").read_text("utf-8").split()
    (place / "google-params.csv").write_text(f"{header},hash_family\n{row},google-rappor-python\n", "utf-8")
    params, family = "--params google-params.csv", "--hash-family google-rappor-python"
    return "".join(
        (
            run(place, f"encode {PARAMS} --values values.csv --seed 5 {family} -o google.csv --json"),
            run(place, f"map {PARAMS} --candidates names.txt {family} -o google-map.csv", "google-map.csv"),
            run(place, f"sum {params} google.csv -o google-counts.csv", "google-counts.csv"),
            run(place, f"decode {params} --counts google-counts.csv --map google-map.csv -o google --json"),
        )
    )


@scene
def collect(place):
    """A column of texts by the best oracle; the page's figures as CSV."""
    line = "collect survey.csv --column state --seed 1 -o collected --json"
    return run(place, line, "collected/learned.csv")


@scene
def collect_by_choices(place):
    """Numbers in bins, two rounds of noise, drawn people, candidates."""
    return run_each(
        place,
        "collect survey.csv.gz --column kwh --bins 0 3 6 --epsilon 2 --seed 2 -o kwh --json",
        "collect survey.csv --column state --epsilon 1 --epsilon-permanent 3 --oracle l-osue --seed 3 -o devices "
        "--json",
        "collect survey.csv --column state --candidates trees.txt --people 500 --epsilon 4 --seed 4 --spreadsheet -o -",
    )


@scene
def collect_pairs_sets_and_numbers(place):
    """Two columns, several answers in a row, and numbers as they are."""
    held = (
        " ; ".join(name for at, name in enumerate(("C", "Python", "SQL")) if (n * 7 >> at) % 3 == 1)
        for n in range(2000)
    )
    rows = (f"{items},{n % 3}.0,{('no', 'yes')[n % (4 + n % 3) == 0]}\n" for n, items in enumerate(held))
    (place / "several.csv").write_text("languages,version,crash\n" + "".join(rows))
    return run_each(
        place,
        "collect several.csv --column version --column crash --epsilon 2 --seed 5 -o pairs --json",
        "collect several.csv --column languages --separator ';' --epsilon 4 --seed 6 -o sets --json",
        "collect survey.csv.gz --column kwh --numeric --range 0 1 --epsilon 2 --seed 7 -o mean --json",
        "collect survey.csv.gz --column kwh --numeric distribution --epsilon 2 --seed 8 -o numbers.csv --json",
    )


@scene
def discover(place):
    """A search without a list of candidates, of texts and of numbers."""
    numbers = "discover values.csv --column cohort --epsilon 3 --bits 4 --seed 2 -o discovered.csv --json"
    return run(place, "discover survey.csv --column state --epsilon 4 --bytes 4 --seed 1") + run(
        place, numbers, "discovered.csv"
    )


@scene
def compare(place):
    """Exact errors of all oracles, of one report and of many; and measured ones."""
    return run_each(
        place,
        "compare --domain-size 20 --epsilon 1 --reports 10000 --json",
        "compare --domain-size 20 --epsilon 1 --epsilon-permanent 3 --reports 10000 --json",
        "compare survey.csv --column state --epsilon 2 --measure 2 --seed 1 --json",
    )


@scene
def plan(place):
    """From parameters, from needs, for a known domain."""
    return "".join(
        (
            run(place, f"plan {PARAMS} --reports 100000 --candidates 200 --share 0.01 --json"),
            run(
                place,
                "plan --epsilon 1 --epsilon-permanent 4 --reports 100000 --candidates 50 -o planned.csv --json",
                "planned.csv",
            ),
            run(place, "plan --domain-size 20 --epsilon 1 --reports 10000 --json"),
        )
    )


@scene
def privacy_of_oracles(place):
    """Statements of one of each kind."""
    return "".join(
        run(place, f"privacy {about} --json")
        for about in (
            f"{PARAMS} --reports 20",
            "grr --param epsilon=1 --param domain_size=10 --reports 10",
            "loloha --param epsilon_permanent=2 --param epsilon_report=1",
            "opt-wb --param domain_size=8 --param epsilon=1 --param window=10 --reports 30 --delta 1e-9",
            "square-wave --param epsilon=1 --param maximum=2",
        )
    )


@scene
def privacy_of_metrics(place):
    """Statements of a registry's metrics."""
    return "".join(
        run(place, f"privacy {name} --registry metrics.toml --json") for name in ("colour", "tree", "energy", "word")
    )


@scene
def metrics_lint(place):
    """A registry with warnings, and one with faults."""
    return run(place, "metrics lint metrics.toml --json") + run(place, "metrics lint faults.toml --json")


@scene
def metrics_show(place):
    """The public page of every metric; one as Markdown."""
    return run(place, "metrics show metrics.toml --json") + run(place, "metrics show metrics.toml theme --markdown")


@scene
def metrics_diff(place):
    """What a change weakens."""
    return run(place, "metrics diff metrics.toml weaker.toml --json")


@scene
def plan_of_a_registry(place):
    """What is derived from needs, and the file."""
    return run(place, "plan --registry needs.toml -o planned.toml --json", "planned.toml")


@scene
def metrics_init(place):
    """The first registry."""
    line = (
        "metrics init first.toml --id theme --kind choice --values light,dark --description 'The theme in use.' "
        "--owner 'Design team' --purpose https://example.org/issues/7 --yes"
    )
    return "".join(play_frozen(place, line)) + "--- first.toml\n" + (place / "first.toml").read_text("utf-8")
