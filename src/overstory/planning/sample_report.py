"""What a device would send by a mechanism: one report, step by step, as a page shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from overstory.presentation.document import Block, Figure, KeyValues, Paragraph
from overstory.presentation.formats import plural
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.sampling import SeededEntropy, uniform_below

SEED: Final = "what a device would send"
EXAMPLE_STRING: Final = "maple"


def sample_report_blocks(mechanism: Mechanism) -> Iterator[Block]:
    """Return one report step by step: of a string, or of a value of the domain; always the same for a mechanism."""
    entropy = SeededEntropy(SEED)
    size = mechanism.domain_size
    value = EXAMPLE_STRING if size is None else size // 2
    cohort = uniform_below(mechanism.num_cohorts, entropy)
    permanent = mechanism.draw_permanent(value, cohort, entropy)
    sent = mechanism.instantaneous(permanent, entropy.bits)
    truth = mechanism.encode(value, cohort)
    held = f"the string “{value}”" if size is None else f"value {value:,} of 0 to {size - 1:,}"
    yield Paragraph(
        f"One report, drawn once, of a device that holds {held}. What it holds never leaves it; the last line does, "
        f"{plural(mechanism.payload_bits, 'bit')}{_public(mechanism, cohort)}."
    )
    if mechanism.payload == "bits" and truth is not None:
        yield _picture(mechanism, truth, permanent, sent)
    else:
        yield KeyValues(tuple(_numbers(mechanism, held, truth, permanent, sent)))


def _public(mechanism: Mechanism, cohort: int) -> str:
    if mechanism.num_cohorts == 1:
        return ""
    return f", with the number of its cohort, {cohort:,} of 0 to {mechanism.num_cohorts - 1:,}"


def _picture(mechanism: Mechanism, truth: int, permanent: int, sent: int) -> Figure:
    from overstory.presentation.charts.bits import Step, bits_of_a_report

    def bits(payload: int) -> list[bool]:
        return [bool(payload >> place & 1) for place in range(mechanism.payload_bits)]

    steps = [Step("The value's bits", bits(truth))]
    if not mechanism.fresh:
        steps.append(Step("Kept on the device: noise drawn once for the value", bits(permanent)))
    if mechanism.fresh or sent != permanent:
        steps.append(Step("Sent: noise drawn for this report", bits(sent)))
    steps[-1] = Step(steps[-1].name.replace("Kept on the device", "Kept on the device and sent"), steps[-1].bits)
    caption = "A square is a bit, filled where it is 1. Orange: noise changed it."
    return Figure(bits_of_a_report("report", caption, steps))


def _numbers(
    mechanism: Mechanism, held: str, truth: int | None, permanent: int, sent: int
) -> Iterator[tuple[str, str]]:
    yield "Held", held
    if truth is not None and mechanism.domain_size != mechanism.payload_limit:
        yield "Its place in this cohort", f"{truth:,} of 0 to {mechanism.payload_limit - 1:,}"
    if sent != permanent:
        yield "Kept on the device", _payload(mechanism, permanent, truth)
    yield "Sent", _payload(mechanism, sent, truth)


def _payload(mechanism: Mechanism, payload: int, truth: int | None) -> str:
    if mechanism.payload_weight is not None:
        places = [place for place in range(mechanism.payload_bits) if payload >> place & 1]
        shown = ", ".join(f"{place:,}" for place in places[:12])
        more = f" and {len(places) - 12:,} more" if len(places) > 12 else ""
        return f"a set of {plural(len(places), 'value')}: {shown}{more}"
    same = "" if truth is None else ": the value's own" if payload == truth else ": another"
    return f"{payload:,} of 0 to {mechanism.payload_limit - 1:,}{same}"
