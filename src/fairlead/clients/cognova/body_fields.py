"""Shared parts of the REST calls for resources: reading a body field by field, with the protocol's own error messages,
and showing an item. Pure."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from fairlead.model.errors import BadRequest
from fairlead.model.formats.timestamps import iso_timestamp
from fairlead.model.web.routes import Request
from fairlead.notifications.api.resources import Resource

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
    """A body's fields: of a `new` item, or of an edit. Each method raises BadRequest with a message for a person, and
    returns None for a missing or null field."""

    def __init__(self, request: Request, *, new: bool = False) -> None:
        self.body: dict[str, Any] = request.json(dict)
        self.new = new

    def has(self, name: str) -> bool:
        return name in self.body

    def required(self, name: str, missing: str, length: int = NAME_LENGTH, *, strip: bool = True) -> str:
        value = self.body.get(name)
        if not isinstance(value, str) or not value.strip():
            raise BadRequest(missing, field=name)
        return _bounded(name, value.strip() if strip else value, length)

    def given(self, name: str, missing: str, length: int = NAME_LENGTH, *, strip: bool = True) -> str | None:
        """A text that a new item must have. An edit may omit it, but not remove it."""
        return self.required(name, missing, length, strip=strip) if self.new or self.has(name) else None

    def given_choice(self, name: str, choices: Sequence[str]) -> str | None:
        """A choice that a new item must have. An edit may omit it, but not remove it."""
        if (self.new or self.has(name)) and not self.body.get(name):
            raise BadRequest(f"{name} is required", field=name)
        return self.choice(name, choices)

    def text(self, name: str, length: int = TEXT_LENGTH) -> str | None:
        value = self._checked(name, lambda value: isinstance(value, str), "a string")
        return None if value is None else _bounded(name, value, length)

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        value = self._checked(name, lambda value: value in choices, f"one of: {', '.join(choices)}")
        return None if value is None else str(value)

    def flag(self, name: str) -> bool | None:
        value: bool | None = self._checked(name, lambda value: isinstance(value, bool), "true or false")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        def valid(value: Any) -> bool:
            return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most

        value = self._checked(name, valid, f"a number from {least:g} to {most:g}")
        return None if value is None else float(value)

    def whole(self, name: str, least: int, most: int) -> int | None:
        def valid(value: Any) -> bool:
            return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

        value: int | None = self._checked(name, valid, f"a whole number from {least} to {most}")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        def valid(value: Any) -> bool:
            return isinstance(value, list) and all(isinstance(one, str) for one in value) and len(value) <= 100

        value = self._checked(name, valid, "a list of strings")
        return None if value is None else tuple(_bounded(name, one, NAME_LENGTH) for one in value)

    def time(self, name: str) -> int | None:
        value = self.body.get(name)
        return None if value is None else read_time(name, value)

    def _checked(self, name: str, valid: Callable[[Any], bool], expected: str) -> Any:
        value = self.body.get(name)
        if value is not None and not valid(value):
            raise BadRequest(f"{name} must be {expected}", field=name)
        return value


def without_none(**values: Any) -> dict[str, Any]:
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
    # JSON can express a lone surrogate, but no encoding can write one.
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise BadRequest(f"{name} has characters that no text has", field=name)
    return value
