"""How many reports there are of each period and each set of parameters, folded or not."""

from overstory.collector.store import open_store
from support.store_samples import NOW, registry, some


def test_a_tally_holds_what_is_folded_and_what_is_not(store_url) -> None:
    metrics = registry()
    bloom, digest = metrics["bloom"], metrics["bloom"].mechanism.digest
    with open_store(store_url, metrics, create=True) as store:
        store.add([some(bloom, 20_000, 5, 1), some(bloom, 20_001, 7, 2), some(metrics["colour"], 20_000, 9, 3)])
        store.compact(NOW)
        store.add([some(bloom, 20_001, 2, 4)])
        assert store.tally("bloom", 20_000, 20_001) == {(20_000, digest): 5, (20_001, digest): 9}
        assert store.tally("bloom", 20_001, 20_009) == {(20_001, digest): 9}
        assert store.tally("tree", 0, 99_999) == {}
