"""The OpenAPI description: FastAPI's, and by hand that of the posts, which no framework answers."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from overstory.collector.http.endpoint import MESSAGE_PATH, PATH, PROBLEM, RELEASE_PATH, RETRY_AFTER
from overstory.collector.ingest.ingest import JSON
from overstory.protocol.metrics.tables import MOST
from overstory.protocol.oblivious.formats import RELEASE_TYPE, REQUEST_TYPE, RESPONSE_TYPE
from overstory.protocol.wire import GROUP
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE

VERSION: Final = "0.5.0"
"""The version of the HTTP interface, not of the program: it changes when clients may notice."""

ERROR: Final = "Error"
_HEX: Final = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_CODES: Final = [reason.value for reason in Reason]
_PROBLEM: Final[dict[str, Any]] = {
    "type": {"type": "string", "format": "uri-reference", "description": "/problems/ and the reason."},
    "title": {"type": "string", "description": "The same for every problem of a type."},
    "status": {"type": "integer", "minimum": 400, "maximum": 599},
    "detail": {"type": "string", "description": "A sentence for people."},
}

SCHEMAS: Final[dict[str, Any]] = {
    ERROR: {
        "type": "object",
        "description": "Problem details (RFC 9457): why a request was refused.",
        "required": ["type", "title", "status", "detail", "reason"],
        "properties": _PROBLEM | {"reason": {"type": "string", "description": "A code for programs."}},
    },
    "Uploads": {
        "type": "object",
        "description": "One or more batches of reports, each of one metric and one period.",
        "required": ["uploads"],
        "properties": {"uploads": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Upload"}}},
    },
    "Upload": {
        "type": "object",
        "additionalProperties": False,
        "required": ["batch", "metric", "period", "digest", "reports"],
        "properties": {
            "batch": {
                **_HEX,
                "description": "16 random bytes: the same on every retry, and different for every batch.",
            },
            "metric": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"},
            "period": {
                "description": "The period's label (ISO 8601, UTC) or its number.",
                "oneOf": [{"type": "string"}, {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}],
            },
            "digest": {**_HEX, "description": "The mechanism's digest, as GET /v1/metrics lists it."},
            "group": {
                "type": "string",
                "pattern": f"^{GROUP.pattern}$",
                "description": "The group of the devices, in clear: only of a metric with groups.",
            },
            "reports": {
                "type": "array",
                "description": "Each report is its cohort and its payload's little-endian bytes in hexadecimal.",
                "items": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": 2,
                    "prefixItems": [
                        {"type": "integer", "minimum": 0},
                        {"type": "string", "pattern": "^([0-9a-f]{2})+$"},
                    ],
                },
            },
        },
    },
    "Result": {
        "type": "object",
        "required": ["batch", "accepted", "duplicate", "reason", "rejected"],
        "properties": {
            "batch": _HEX,
            "accepted": {"type": "integer", "minimum": 0, "description": "Reports committed by this request."},
            "duplicate": {"type": "boolean", "description": "The batch was committed before; this is a success, too."},
            "reason": {"enum": [*_CODES, None]},
            "rejected": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["index", "reason"],
                    "properties": {"index": {"type": "integer", "minimum": 0}, "reason": {"enum": _CODES}},
                },
            },
        },
    },
    "Results": {
        "type": "object",
        "required": ["results"],
        "properties": {"results": {"type": "array", "items": {"$ref": "#/components/schemas/Result"}}},
    },
    "Released": {
        "type": "object",
        "description": "What became of the messages of one part of a release.",
        "required": ["taken", "refused", "again"],
        "additionalProperties": False,
        "properties": {
            "taken": {"type": "integer", "minimum": 0, "description": "Messages committed, now or before."},
            "refused": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 1},
                "description": "Messages refused for good, by reason.",
            },
            "again": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "Places of the messages to send again, in a later part of the same release.",
            },
        },
    },
    "Refusal": {
        "type": "object",
        "description": "Problem details (RFC 9457): why no report of a request was taken.",
        "required": ["type", "title", "status", "detail", "reason", "results"],
        "properties": _PROBLEM
        | {
            "reason": {"enum": _CODES, "description": "A code for programs."},
            "where": {
                "type": "string",
                "description": "What is wrong in the body, and where, if that is known.",
            },
            "results": {"type": "array", "items": {"$ref": "#/components/schemas/Result"}},
        },
    },
}


def operation() -> dict[str, Any]:
    """Return OpenAPI's description of the operation."""
    return {
        "summary": "Take reports",
        "description": "The answer comes after the reports are committed. The status is 200 when at least one upload "
        "was accepted, now or before; otherwise it is the status of the first reason. After 429 and 503, send the "
        "same bytes again.",
        "operationId": "post_reports",
        "tags": ["reports"],
        "security": [{"token": []}],
        "requestBody": {
            "required": True,
            "content": {
                MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
                JSON: {"schema": {"$ref": "#/components/schemas/Uploads"}},
            },
        },
        "responses": {"200": _response("The result of each upload.", "Results")} | _refusals(),
    }


def shard_operation() -> dict[str, Any]:
    """Return OpenAPI's description of the same of one shard: a balancer routes by its path."""
    number = {"type": "integer", "minimum": 0, "maximum": MOST - 1}
    described = "The first two bytes of the batch id, as a big-endian number, modulo the registry's number of shards."
    return operation() | {
        "summary": "Take reports of one shard",
        "operationId": "post_reports_of_shard",
        "parameters": [
            {"name": "shard", "in": "path", "required": True, "schema": number, "description": described},
        ],
    }


_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_UNSEALED: Final = {
    "400": "`ohttp-key`: there is no key for it here (type "
    "https://iana.org/assignments/http-problem-types#ohttp-key). `undecryptable`: it was altered, or cut off.",
    "404": "`not-found`: this collector has no keys for sealed requests.",
    "408": "`slow`: The request did not arrive in time: send it again.",
    "413": "`too-large`: The body is larger than this collector takes.",
    "415": "`wrong-type`: The content type is another one.",
    "429": "`queue-full`: Send it again after Retry-After.",
    "503": "`closing`, `store`, `fault`: Send it again after Retry-After.",
}


def message_operation() -> dict[str, Any]:
    """Return OpenAPI's description of POST /v1/oblivious."""
    return {
        "summary": "Take reports that are sealed (Oblivious HTTP, RFC 9458)",
        "description": "The message holds a request to POST /v1/reports, with its write token. Whatever is wrong in it "
        "is answered inside the response, which its sender alone can open.",
        "operationId": "post_oblivious",
        "tags": ["reports"],
        "requestBody": {"required": True, "content": {REQUEST_TYPE: _BINARY}},
        "responses": {
            "200": {"description": "The sealed response.", "content": {RESPONSE_TYPE: _BINARY}},
            **{status: _problem(words, ERROR) for status, words in _UNSEALED.items()},
        },
    }


def release_operation() -> dict[str, Any]:
    """Return OpenAPI's description of POST /v1/oblivious/release."""
    own = {
        "400": "`damaged`: The body is no part of a release.",
        "401": "`no-token`, `unknown-token`: A release needs a valid token of the role relay.",
        "413": "`too-large`, `too-many`: The part is larger than this collector takes.",
    }
    return {
        "summary": "Take what a shuffling relay releases",
        "description": "A part of a release: sealed requests, released together. The answer comes after all of them "
        "were decided. After 429 and 503, and without an answer, send all again: nothing counts twice.",
        "operationId": "post_release",
        "tags": ["reports"],
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {RELEASE_TYPE: _BINARY}},
        "responses": {
            "200": _response("What became of the messages.", "Released"),
            **{status: _problem(words, ERROR) for status, words in sorted((_UNSEALED | own).items())},
        },
    }


def _refusals() -> dict[str, Any]:
    by_status: dict[int, list[Reason]] = {}
    for reason in Reason:
        by_status.setdefault(reason.status, []).append(reason)
    refusals = {"408": _problem("`slow`: The request did not arrive in time: send it again.", ERROR)}
    for status, reasons in sorted(by_status.items()):
        refusals[str(status)] = _problem(" ".join(f"`{reason}`: {reason.detail}" for reason in reasons), "Refusal")
        if any(reason in RETRY_AFTER for reason in reasons):
            refusals[str(status)]["headers"] = {
                "Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}
            }
    return refusals


def _problem(description: str, schema: str) -> dict[str, Any]:
    return _response(description, schema, PROBLEM)


def _response(description: str, schema: str, media_type: str = JSON) -> dict[str, Any]:
    return {
        "description": description,
        "content": {media_type: {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description of the application, with the posts and the schema of errors in it."""
    if not app.openapi_schema:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = schema.setdefault("components", {})
        components["schemas"] = {**SCHEMAS}
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path in schema["paths"].values():
            for described in path.values():
                described["responses"].pop("422", None)  # our own handler answers 400
        posts = {
            PATH: operation(),
            f"{PATH}/{{shard}}": shard_operation(),
            MESSAGE_PATH: message_operation(),
            RELEASE_PATH: release_operation(),
        }
        schema["paths"] = {path: {"post": post} for path, post in posts.items()} | schema["paths"]
        app.openapi_schema = schema
    return app.openapi_schema
