"""A fast path for uploads of one report, which differ from earlier ones of the same metric and period in few bytes.

Such an upload consists of a batch id, a cohort, a payload, a checksum, and bytes that depend only on the metric, its
parameters and the period. When an upload with these latter bytes was accepted, only the former are checked in the next.
An upload that differs in any other byte takes the full path, which also finds the reason when it refuses.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

from overstory.collector.ingest.validation import ReportFormat
from overstory.collector.store import Received
from overstory.protocol.wire import batch, upload

LONGEST: Final = 1024
"""Longer uploads are not looked up: for those the saving is small."""

MOST: Final = 4096
"""So many templates are remembered; a registry has fewer metrics with open periods than that."""

_ID_AT: Final = 8
_ID_ENDS: Final = _ID_AT + upload.ID_BYTES
_NAME_LENGTH_AT: Final = 6
_TRAILER: Final = batch.TRAILER.size

Key = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Template:
    """What is known of uploads of one report with the same fixed bytes.

    Attributes
    ----------
    report_format, like
        The metric's reports, and one that was sound.
    opens, closes
        From when until when, in unix time, such uploads are taken.
    """

    report_format: ReportFormat
    like: Received
    length: int  # of the upload
    opens: float
    closes: float


class TemplateCache:
    """The templates seen so far."""

    def __init__(self) -> None:
        self._by_key: dict[Key, Template] = {}

    def remember(self, body: bytes, template: Template) -> None:
        """Keep the template of a body that was one sound upload of one report."""
        if len(self._by_key) >= MOST:
            self._by_key.clear()
        self._by_key[_key(body, _batch_at(body))] = template

    def recognise(self, body: bytes, now: float) -> Received | None:
        """Return what is to be stored of a sound upload of a known template; None for anything else."""
        if not _ID_ENDS < len(body) <= LONGEST:
            return None
        at = _batch_at(body)
        template = self._by_key.get(_key(body, at))
        if template is None or len(body) != template.length or not template.opens <= now < template.closes:
            return None
        if zlib.crc32(body[at:-_TRAILER]) != int.from_bytes(body[-_TRAILER:], "little"):
            return None
        report_format, like = template.report_format, template.like
        columns = at + batch.HEADER.size
        split = columns + report_format.cohort_bytes
        cohort, bits = body[columns:split], body[split:-_TRAILER]
        if report_format.refuse(cohort, bits) is not None:
            return None
        return Received(
            like.metric,
            like.period,
            body[_ID_AT:_ID_ENDS],
            like.digest,
            like.num_bits,
            like.num_cohorts,
            1,
            cohort,
            bits,
            like.forget_after,
        )


def _batch_at(body: bytes) -> int:
    """Return where the packed batch begins."""
    return upload.HEADER.size + body[_NAME_LENGTH_AT]


def _key(body: bytes, at: int) -> Key:
    """Return the bytes that all uploads of a template share: around the batch id, up to the packed batch's columns."""
    return body[:_ID_AT], body[_ID_ENDS : at + batch.HEADER.size]
