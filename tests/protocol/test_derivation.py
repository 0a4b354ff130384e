from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.protocol.sampling import KeyedEntropy, SeededEntropy, SystemEntropy, context
from support.protocol_twins import stream, tagged

parts = st.lists(st.one_of(st.binary(max_size=6), st.text("ab0s", max_size=6), st.integers(-20, 20)), max_size=4)


@settings(max_examples=300)
@given(parts, parts)
def test_different_parts_give_different_contexts(first, second):
    same = [(type(p), p) for p in first] == [(type(p), p) for p in second]
    assert (context(*first) == context(*second)) == same


@given(parts)
def test_a_context_is_what_its_words_say(some):
    assert context(*some) == tagged(*some)


@given(st.binary(min_size=1, max_size=64), st.binary(max_size=20), st.lists(st.integers(0, 700), max_size=5))
def test_a_stream_is_the_same_however_it_is_read(key, about, reads):
    source, whole = KeyedEntropy(key, about, purpose=b"p"), stream(key, about, b"p", sum(reads))
    for count in reads:
        drawn, whole = whole[:count], whole[count:]
        assert source.bits(count) == sum(bit << i for i, bit in enumerate(drawn))


@given(st.binary(max_size=20), st.integers(0, 1500), st.integers(0, 100))
def test_a_topic_has_its_own_stream_and_leaves_the_other_alone(topic, count, before):
    source = KeyedEntropy(b"key", b"about")
    source.bits(before)
    drawn = stream(b"key", b"about", b"overstory", count, topic)
    assert source.bits_about(topic, count) == sum(bit << i for i, bit in enumerate(drawn))
    rest = stream(b"key", b"about", b"overstory", before + 64)[before:]
    assert source.bits(64) == sum(bit << i for i, bit in enumerate(rest))


@given(st.integers(0, 300))
def test_every_source_gives_as_many_bits_as_asked(count):
    for source in (SystemEntropy(), SeededEntropy(1), KeyedEntropy(b"k")):
        assert 0 <= source.bits(count) < 1 << count


def test_every_bit_of_every_source_moves():
    for source in (SystemEntropy(), SeededEntropy("a seed"), KeyedEntropy(b"k")):
        for count in (1, 7, 13, 64, 513):
            drawn = [source.bits(count) for _ in range(200)]
            ever, always = 0, (1 << count) - 1
            for bits in drawn:
                ever, always = ever | bits, always & bits
            assert ever == (1 << count) - 1
            assert always == 0
