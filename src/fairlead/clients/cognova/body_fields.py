"""Shared parts of the REST calls for resources: reading a body field by field, with the protocol's own error messages,
and showing an item. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from fairlead.clients.cognova.rest import TOKEN_HEADER, Handler, problem, with_errors
from fairlead.model.auth import Scope
from fairlead.model.errors import BadRequest, NotFound
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Request, Route, Steps
from fairlead.notifications.api.resources import Resource

BODY_LIMIT: Final = 1 << 20
NAME_LENGTH: Final = 500
"""Maximum characters of a resource's name, which is sent to every subscriber."""
TEXT_LENGTH: Final = 500_000

TIMES: Final = frozenset({"createdAt", "modifiedAt", "deletedAt", "dueDate", "completedAt", "remindAt"})
HIDDEN: Final = frozenset({"sealed", "secret", "p256dh", "auth", "seq", "user", "credential"})


def item_json(item: Resource, *without: str) -> dict[str, Any]:
    """An item as clients see it: times in ISO 8601, without secrets."""
    fields: dict[str, Any] = msgspec.to_builtins(item)
    for name in (*HIDDEN, *without):
        fields.pop(name, None)
    for name in TIMES & fields.keys():
        fields[name] = None if fields[name] is None else iso_timestamp(fields[name])
    return fields


class BodyFields:
    """A body's fields. Each method raises BadRequest with a message for a person; a missing or null field gets the
    default (for `changes`: it is left out)."""

    def __init__(self, request: Request) -> None:
        self.body: dict[str, Any] = request.json(dict)

    def has(self, name: str) -> bool:
        return name in self.body

    def required(self, name: str, missing: str, length: int = NAME_LENGTH, *, strip: bool = True) -> str:
        value = self.body.get(name)
        if not isinstance(value, str) or not value.strip():
            raise BadRequest(missing, field=name)
        return _bounded(name, value.strip() if strip else value, length)

    def text(self, name: str, length: int = TEXT_LENGTH) -> str | None:
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise BadRequest(f"{name} must be a string", field=name)
        return _bounded(name, value, length)

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        value = self.body.get(name)
        if value is None:
            return None
        if value not in choices:
            raise BadRequest(f"{name} must be one of: {', '.join(choices)}", field=name)
        return str(value)

    def flag(self, name: str) -> bool | None:
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            raise BadRequest(f"{name} must be true or false", field=name)
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise BadRequest(f"{name} must be a number from {least:g} to {most:g}", field=name)
        return float(value)

    def whole(self, name: str, least: int, most: int) -> int | None:
        value = self.body.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise BadRequest(f"{name} must be a whole number from {least} to {most}", field=name)
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value) or len(value) > 100:
            raise BadRequest(f"{name} must be a list of strings", field=name)
        return tuple(_bounded(name, one, NAME_LENGTH) for one in value)

    def time(self, name: str) -> int | None:
        value = self.body.get(name)
        if value is None:
            return None
        return read_time(name, value)


def without_none(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def read_time(name: str, value: Any) -> int:
    try:
        found = datetime.fromisoformat(value)
        at = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return int(at.timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        raise BadRequest(f"{name} must be a date as ISO 8601 writes it", field=name) from None


def _bounded(name: str, value: str, length: int) -> str:
    if len(value) > length:
        raise BadRequest(f"{name} has more than {length} characters", field=name)
    if "\0" in value or not _encodable(value):
        raise BadRequest(f"{name} has characters that no text has", field=name)
    return value


def _encodable(value: str) -> bool:
    """Whether the text has no lone surrogate, which JSON can express but no encoding can write."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


def query_values(request: Request, name: str) -> tuple[str, ...]:
    """All non-empty values of a query parameter."""
    return tuple(value for key, value in parse_qsl(request.head.query, errors="replace") if key == name and value)


def not_found_message(message: str) -> Callable[[Handler], Handler]:
    """Answer NotFound with this message; `{id}` stands for the requested id."""

    def decorate(handler: Handler) -> Handler:
        @with_errors
        @wraps(handler)
        def run(request: Request) -> Steps:
            try:
                return (yield from handler(request))
            except NotFound as error:
                return _gone(message, str(error.data.get("given", "")))

        return run

    return decorate


def _gone(message: str, id: str) -> Response:
    return problem(404, message.replace("{id}", id))


def route(method: str, path: str, access: Scope, handle: Handler, about: str) -> Route:
    name = path.removeprefix("/api/").replace("/", ".").replace("{", "").replace("}", "")
    return Route(
        method=method,
        path=path,
        access=access,
        name=f"cognova.{name}.{method.lower()}",
        handle=handle,
        about=about,
        token_header=TOKEN_HEADER,
        body_limit=BODY_LIMIT,
    )
