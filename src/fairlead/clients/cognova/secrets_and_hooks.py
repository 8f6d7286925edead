"""REST for secrets and hook events. Pure."""

import re
from typing import Any, Final

from fairlead.clients.cognova.body_fields import BodyFields, item_json, read_time, without_none
from fairlead.clients.cognova.resource_calls import ResourceCalls
from fairlead.clients.cognova.rest import data, new_routes
from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.cognova import HookEvent, RevealSecret, Secret
from fairlead.notifications.api.resources import AddItem, GetItem, ListItems

EVENTS: Final = ("SessionStart", "SessionEnd", "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit")
KEY: Final = re.compile(r"[A-Z][A-Z0-9_]*")
KEY_LENGTH: Final = 255
BAD_KEY: Final = "Key must be uppercase letters, digits and underscores, beginning with a letter"

ROUTES: Final = new_routes()


# --- secrets; the `id` of a path is a secret's key


def _secret(secret: Secret) -> dict[str, Any]:
    fields = item_json(secret)
    return {name: fields[name] for name in ("id", "key", "description", "createdAt")}


def _values(fields: BodyFields) -> dict[str, Any]:
    return without_none(
        value=fields.given("value", "value is required", 100_000, strip=False),
        description=fields.text("description", 1000),
    )


@ROUTES.post("/api/secrets", "admin", "secrets.add")
def add_secret(request: Request) -> Steps:
    fields = BodyFields(request, new=True)
    key = fields.required("key", "key is required", strip=False)
    if len(key) > KEY_LENGTH or not KEY.fullmatch(key):
        raise BadRequest(BAD_KEY, field="key")
    values = _values(fields)
    value = values.pop("value")
    return data(_secret((yield AddItem(Secret(id=request.fresh, key=key, **values), value))))


@ROUTES.get("/api/secrets/{id}", "admin", "secrets.get")
def get_secret(request: Request) -> Steps:
    """One secret, with its value."""
    secret = yield from do(GetItem(Secret, request.params["id"]))
    return data(_secret(secret) | {"value": (yield RevealSecret(secret.key))})


SECRETS: Final = ResourceCalls(Secret, _values, show=_secret, removed=lambda gone: {"deleted": True})
SECRETS.declare(ROUTES, "/api/secrets", "list", "edit", "remove", access="admin")


# --- hook events


def _hook(fields: BodyFields) -> dict[str, Any]:
    return without_none(
        event_type=fields.given_choice("eventType", EVENTS) if fields.new else None,
        session_id=fields.text("sessionId", 100),
        project_dir=fields.text("projectDir", 4096),
        tool_name=fields.text("toolName", 200),
        tool_matcher=fields.text("toolMatcher", 1000),
        event_data=fields.body.get("eventData"),
        exit_code=fields.whole("exitCode", -(2**31), 2**31),
        blocked=fields.flag("blocked"),
        block_reason=fields.text("blockReason"),
        duration_ms=fields.whole("durationMs", 0, 2**53),
        hook_script=fields.text("hookScript", 4096),
    )


@ROUTES.get("/api/hooks/events", "view", "hooks.events.list")
def list_hooks(request: Request) -> Steps:
    query = request.query
    fields = (("eventType", "event_type"), ("sessionId", "session_id"), ("toolName", "tool_name"))
    wanted = [(field, query[name]) for name, field in fields if query.get(name)]
    since = read_time("since", query["since"]) if query.get("since") else 0
    blocked = {"true": True, "false": False}.get(query.get("blocked", ""))

    def accept(one: HookEvent) -> bool:
        return (
            all(getattr(one, field) == value for field, value in wanted)
            and one.created_at >= since
            and blocked in (None, one.blocked)
        )

    found = yield from do(ListItems(HookEvent, accept, request.query_int("limit", 100, 1, 500)))
    return data([item_json(one) for one in found])


HOOKS: Final = ResourceCalls(HookEvent, _hook)
HOOKS.declare(ROUTES, "/api/hooks/events", "add", "edit", "remove")
