"""The decision about a request's body, without socket, clock and store: reports to store, and a result per upload."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Final

from overstory.collector.ingest.received import Received
from overstory.collector.ingest.validation import ReportFormat, Template, TemplateCache
from overstory.collector.settings import Limits
from overstory.protocol.errors import WireError
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.wire.json_uploads import uploads_from_json
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, decode_uploads

_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}

MEMBERS: Final = 16  # a gzip body may have up to this many members (RFC 1952, 2.2)


def inflate(body: bytes, encoding: str, most: int) -> bytes:
    """Decode a body with this Content-Encoding (gzip, deflate, identity or none) to at most `most` bytes."""
    if encoding in {"", "identity"}:
        return body
    if encoding not in _WINDOW_BITS:
        raise WireError("wrong-type", f"Content-Encoding {encoding!r:.40} is not read here: send gzip or deflate")
    inflated, rest = bytearray(), body
    for _ in range(MEMBERS if encoding != "deflate" else 1):
        inflater = zlib.decompressobj(_WINDOW_BITS[encoding])
        try:
            inflated += inflater.decompress(rest, most + 1 - len(inflated))
        except zlib.error:
            raise WireError("damaged", f"the body is not {encoding}") from None
        if len(inflated) > most:
            raise WireError("too-large", f"the body inflates to more than {most} bytes: send smaller batches")
        rest = inflater.unused_data
        if inflater.eof and not rest:
            return bytes(inflated)
    raise WireError("damaged", f"the body is not one complete {encoding} stream")


JSON: Final = "application/json"
EARLY: Final = 1  # a device's clock may be ahead by this many periods
OVERHEAD: Final = 256  # about how many bytes of memory a waiting batch takes in addition to its own


@dataclass(slots=True)
class Result:
    """The decision about one upload: the reason of its refusal, or the number of its valid reports."""

    batch: bytes
    metric: str
    accepted: int = 0
    reason: Reason | None = None
    rejected: tuple[tuple[int, Reason], ...] = ()


@dataclass(slots=True)
class Decision:
    """The decision about a request."""

    refused: Reason | None = None  # why the body was refused as such
    results: list[Result] = field(default_factory=list)  # one per upload, in the body's order
    # The batches to commit: those of the results without a reason, in the same order.
    received: list[Received] = field(default_factory=list)
    num_reports: int = 0  # of `received`
    num_bytes: int = 0  # of `received`
    where: str = ""  # what is wrong in the body, and where, if that is known
    num_read: int = 0  # how many reports were looked at, the refused ones too


class Ingest:
    """Decides about request bodies by a registry; `shard`: whose uploads are taken, None: of all."""

    def __init__(self, registry: MetricRegistry, limits: Limits | None = None, shard: int | None = None) -> None:
        self.registry, self.limits, self.shard = registry, limits or Limits(), shard
        # A template says that such an upload was taken, which may depend on its way here.
        self._templates, self._sealed_templates = TemplateCache(), TemplateCache()
        self._metrics = {name: (metric, ReportFormat.of(metric.mechanism)) for name, metric in registry.metrics.items()}

    def decide(
        self, body: bytes, content_type: str, now: float, *, encoding: str = "", oblivious: bool = False
    ) -> Decision:
        """Decide about one request's body; `content_type`, without parameters, and `encoding` are in lower case."""
        plain = content_type == MEDIA_TYPE and not encoding
        templates = self._sealed_templates if oblivious else self._templates
        received = templates.recognise(body, now) if plain else None
        if received is not None and self._is_of_shard(received.metric, received.period, received.batch):
            return Decision(None, [Result(received.batch, received.metric, 1)], [received], 1, len(body) + OVERHEAD)
        try:
            uploads = self._uploads(body, content_type, encoding)
        except WireError as error:
            return Decision(Reason.of(error), where=str(error))
        decision = Decision()
        for upload in uploads:
            if not self._take(upload, now, decision, oblivious=oblivious):
                return Decision(Reason.TOO_MANY)
        if plain and len(uploads) == 1 and decision.num_reports == 1 and not decision.results[0].rejected:
            self._remember(templates, body, decision.received[0])
        return decision

    def _is_of_shard(self, metric: str, period: int, batch: bytes) -> bool:
        """Whether an upload belongs here: by its batch id, not by the path that it was posted to."""
        if self.shard is None:
            return True
        shards = self.registry.shards
        return shards is not None and shards.of(self.registry.metrics[metric], period, batch) == self.shard

    def _remember(self, templates: TemplateCache, body: bytes, received: Received) -> None:
        metric, report_format = self._metrics[received.metric]
        opens = metric.period.start(received.period - EARLY)
        closes = metric.accept_until(received.period)
        templates.remember(body, Template(report_format, received, len(body), opens, closes))

    def _uploads(self, body: bytes, content_type: str, encoding: str) -> list[Upload]:
        most = self.limits.json_bytes if content_type == JSON else self.limits.inflated_bytes
        if encoding:
            body = inflate(body, encoding, most)
        if len(body) > most:
            raise WireError("too-large", f"the body has more than {most} bytes")
        if content_type == MEDIA_TYPE:
            return decode_uploads(body, self.limits.uploads)
        if content_type != JSON:
            raise WireError("wrong-type", f"send {MEDIA_TYPE} or {JSON}")
        try:
            parsed = json.loads(body, object_pairs_hook=_object)
        except WireError:
            raise
        except ValueError as error:
            raise WireError("damaged", f"the body is not JSON: {error}") from None
        except RecursionError:
            raise WireError("damaged", "the body is nested too deeply") from None
        return uploads_from_json(parsed, self.registry.metrics, self.limits.uploads)

    def _take(self, upload: Upload, now: float, decision: Decision, *, oblivious: bool) -> bool:
        """Add one upload to the decision; False when the request holds too many reports."""
        result = Result(upload.batch, upload.metric)
        decision.results.append(result)
        entry = self._metrics.get(upload.metric)
        if entry is None:
            result.reason = Reason.UNKNOWN_METRIC
            return True
        metric, report_format = entry
        result.reason = _out_of_place(metric, upload, now, oblivious=oblivious)
        if result.reason is None and not self._is_of_shard(upload.metric, upload.period, upload.batch):
            result.reason = Reason.WRONG_SHARD
        if result.reason is not None:
            return True
        columns = report_format.read(upload.reports, self.limits.reports - decision.num_read)
        if columns is Reason.TOO_MANY:
            return False
        if isinstance(columns, Reason):
            result.reason = columns
            return True
        result.rejected = columns.rejected
        decision.num_read += columns.num_reports + len(columns.rejected)
        if not columns.num_reports:
            result.reason = columns.rejected[0][1]
            return True
        result.accepted = columns.num_reports
        decision.num_reports += columns.num_reports
        decision.num_bytes += len(upload.reports) + OVERHEAD
        decision.received.append(
            Received(
                metric=upload.metric,
                period=upload.period,
                batch=upload.batch,
                digest=report_format.digest,
                num_bits=report_format.num_bits,
                num_cohorts=report_format.num_cohorts,
                num_reports=columns.num_reports,
                cohorts=columns.cohorts,
                bits=columns.bits,
                forget_after=metric.final_from(upload.period),
                ends=metric.period.start(upload.period + 1),
                group=upload.group,
            )
        )
        return True


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; refuse a key that appears twice, because it is unclear which value was meant."""
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in values if keys.count(key) > 1)
        raise WireError("json", f"the key {twice!r:.50} appears twice in one object")
    return values


def _out_of_place(metric: Metric, upload: Upload, now: float, *, oblivious: bool) -> Reason | None:
    """Return why an upload is not taken, whatever its reports are: its way here, its time, its group; or None."""
    if metric.is_oblivious and not oblivious:
        return Reason.WRONG_TRANSPORT
    reason = out_of_time(metric, upload.period, now)
    if reason is None and upload.group and (metric.groups is None or upload.group not in metric.groups.names):
        return Reason.UNKNOWN_GROUP
    return reason


def out_of_time(metric: Metric, period: int, now: float) -> Reason | None:
    """Return why reports of that period are not taken at that time, or None: clocks differ, and reports are late."""
    if period > metric.period.number(now) + EARLY:
        return Reason.PERIOD_FUTURE
    if metric.expired(metric.period.start(period)):
        return Reason.METRIC_EXPIRED
    if now >= metric.accept_until(period):
        return Reason.PERIOD_CLOSED
    return None
