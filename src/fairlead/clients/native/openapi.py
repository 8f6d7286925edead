"""The reference of the REST calls as an OpenAPI document, generated from the routes."""

from collections.abc import Sequence
from typing import Any, Final, get_args

import msgspec

from fairlead.model.events import Event
from fairlead.model.web.routes import Param, Route

_REF: Final = "#/components/schemas/{name}"
_KINDS: Final = {str: "string", int: "integer", bool: "boolean"}
_FAILURES: Final = {
    "400": "Malformed: a wrong type, an unknown field, an unknown id form.",
    "401": "No valid credential.",
    "403": "The credential lacks a scope, or a page of another origin asked.",
    "default": "Any other failure; `code` is stable.",
}
_ACCESS: Final = {"public": "Needs no credential.", "any": "Needs any valid credential."}
_RENDERED: Final[dict[str, dict[str, Any]]] = {
    "sessions.export": {"application/x-ndjson": {}, "text/html": {}},
    "events.list": {"application/x-ndjson": {}},
}
"""Content types of responses that are not (only) JSON, by route."""


_EVENT_FIELDS: Final = {"EventPage": "events", "TranscriptPreview": "events", "PendingView": "event"}
_IN_LOG: Final = {"seq": {"type": "integer"}, "prev": {"type": "integer"}, "session": {"type": "string"}}


class ErrorBody(msgspec.Struct, frozen=True):
    code: str
    message: str
    data: dict[str, Any] = {}


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every error response. `code` is stable, the message is not."""

    error: ErrorBody


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    kinds = {kind for route in routes for kind in (route.body, *_answers(route)) if kind is not None}
    kinds |= {ErrorAnswer, *get_args(Event)}
    # Sort by module too: otherwise the order of two types with the same name would vary.
    known = sorted(kinds, key=lambda kind: (str(kind.__name__), str(kind.__module__)))
    schemas, components = msgspec.json.schema_components(known, ref_template=_REF)
    shapes = dict(zip(known, schemas, strict=True))
    _describe_events(components)
    _complete_arrays(components)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, shapes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairlead",
            "version": version,
            "description": "The native REST calls. Live events and commands: the WebSocket at /v1/ws.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "signature": {"type": "apiKey", "in": "query", "name": "sig"},
            },
        },
    }


def _describe_events(components: dict[str, Any]) -> None:
    """Events are stored as JSON, and passed on without being decoded: their types are added here."""
    mapping = {}
    for kind in get_args(Event):
        components[kind.__name__]["properties"] |= _IN_LOG
        mapping[kind.__struct_config__.tag] = _REF.format(name=kind.__name__)
    components["Event"] = {
        "description": "An event of a session. It has `seq`, `prev` and `session` if it was read from the log.",
        "anyOf": [{"$ref": reference} for reference in mapping.values()],
        "discriminator": {"propertyName": "type", "mapping": mapping},
    }
    event = {"$ref": _REF.format(name="Event")}
    for name, field in _EVENT_FIELDS.items():
        if name in components:
            fields = components[name]["properties"]
            fields[field] = {"type": "array", "items": event} if field == "events" else event


def _complete_arrays(shape: Any) -> None:
    """Name the items of every array in the form that generators of clients understand: JSON Schema lets them be left
    out, or listed one by one."""
    if isinstance(shape, dict):
        if shape.get("type") == "array":
            listed = shape.pop("prefixItems", None)
            if listed is not None:
                shape["items"] = listed[0] if all(item == listed[0] for item in listed) else {"anyOf": listed}
            shape.setdefault("items", {})
        for value in shape.values():
            _complete_arrays(value)
    elif isinstance(shape, list):
        for value in shape:
            _complete_arrays(value)


def _answers(route: Route) -> tuple[Any, ...]:
    return route.answer if isinstance(route.answer, tuple) else (route.answer,)


def _operation(route: Route, shapes: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    answers = [shapes[kind] for kind in _answers(route) if kind is not None]
    json = {"application/json": {"schema": answers[0] if len(answers) == 1 else {"anyOf": answers}}} if answers else {}
    response = {"description": route.about, "content": {**json, **_RENDERED.get(route.name, {})}}
    failure = {"application/json": {"schema": shapes[ErrorAnswer]}}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "description": _ACCESS.get(route.access, f"Needs the scope {route.access}."),
        "parameters": [*_in_path(route.path), *(_in_query(param) for param in route.query)],
        "responses": {
            str(route.status): response,
            **{status: {"description": about, "content": failure} for status, about in _FAILURES.items()},
        },
    }
    if route.method == "POST":
        operation["parameters"].append(_IDEMPOTENCY)
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": shapes[route.body]}}}
    if route.access == "public":
        operation["security"] = []
    elif route.signed:
        operation["security"] = [{"bearer": []}, {"signature": []}]
    return operation


_IDEMPOTENCY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeat with the same key is answered from the log; calls that only ask for something ignore it.",
    "schema": {"type": "string", "maxLength": 200},
}


def _in_path(path: str) -> list[dict[str, Any]]:
    names = [part[1:-1].removesuffix("...") for part in path.split("/") if part.startswith("{")]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _in_query(param: Param) -> dict[str, Any]:
    fields = {"name": param.name, "in": "query", "required": param.required, "schema": {"type": _KINDS[param.kind]}}
    return {**fields, "description": param.about} if param.about else fields
