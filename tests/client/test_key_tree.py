"""The key tree: what is taken away is gone, and nothing else is."""

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.client.state.secret_file import DEPTH, DeviceSecret, read_secret, write_secret

ROOT = bytes(range(32))
names = st.text("abcdefgh", min_size=1, max_size=6)


def walked(root, metric):
    """The keys on the way from the root to a metric's leaf, from the words that describe the tree."""
    leaf = hashlib.blake2b(metric.encode(), digest_size=8, person=b"metric leaf").digest()
    bits = "".join(f"{octet:08b}" for octet in leaf)
    path = [root]
    for bit in bits:
        path.append(hashlib.blake2b(bytes([int(bit)]), key=path[-1], digest_size=32, person=b"key tree").digest())
    return path


@given(names)
def test_a_key_is_the_end_of_the_way_down(metric):
    path = walked(ROOT, metric)
    assert len(path) == DEPTH + 1
    assert DeviceSecret.of_root(ROOT).key(metric) == path[-1]


@settings(max_examples=50, deadline=None)
@given(st.lists(names, max_size=6), st.lists(names, max_size=6))
def test_only_what_is_taken_away_is_gone(taken, others):
    tree = DeviceSecret.of_root(ROOT).without(taken)
    held = {node.key for node in tree._nodes}
    for metric in taken:
        assert tree.key(metric) is None
        assert not held & set(walked(ROOT, metric)), "no node on its way is left"
    for metric in set(others) - set(taken):
        assert tree.key(metric) == walked(ROOT, metric)[-1]
    assert len(held) <= 1 + DEPTH * len(set(taken))


def test_a_tree_that_keeps_the_last_node_is_caught():
    """What the check above is worth: the leaf's parent gives the key back."""
    parent = walked(ROOT, "colour")[-2]
    bit = walked(ROOT, "colour")[-1]
    assert bit in {hashlib.blake2b(bytes([b]), key=parent, digest_size=32, person=b"key tree").digest() for b in (0, 1)}
    assert parent not in {node.key for node in DeviceSecret.of_root(ROOT).without(["colour"])._nodes}


@settings(max_examples=25, deadline=None)
@given(st.lists(names, max_size=4))
def test_a_secret_comes_back_from_its_file(tmp_path_factory, taken):
    path = tmp_path_factory.mktemp("secret") / "secret"
    secret = DeviceSecret.of_root(ROOT).without(taken)
    write_secret(path, secret)
    again = read_secret(path)
    assert again.reveal() == secret.reveal()
    assert again.fingerprint == secret.fingerprint
    assert all(again.key(metric) is None for metric in taken)
    assert again.key("another metric") == secret.key("another metric") is not None
