"""REST for notifications: which changes a user wants to see, and the external targets: webhooks, ntfy topics and the
push services of browsers. Pure."""

from typing import Any, Final

import msgspec

from fairlead.clients.cognova.body_fields import BodyFields, item_json
from fairlead.clients.cognova.resource_calls import ResourceCalls
from fairlead.clients.cognova.rest import data, new_routes
from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.feed import (
    RESOURCES,
    SUBSCRIBABLE,
    TOPICS,
    ChangeAction,
    ReadFeedPreferences,
    WriteFeedPreferences,
)
from fairlead.notifications.api.resources import GetItem, RemoveItem
from fairlead.notifications.api.targets import AddTarget, Destination, PushKey, TryTarget

KINDS: Final = ("webhook", "ntfy")
USUAL: Final = ("permission.asked", "turn", "reminder.complete", "agent.complete", "agent.fail", "agent.cancel")
"""The default topics, for a person who is away."""
ON: Final = frozenset({"task", "reminder", "agent", "memory", "project", "secret"})
"""Resources whose changes a client shows by default."""

ROUTES: Final = new_routes()


# --- preferences


class Preference(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool
    subtypes: dict[ChangeAction, bool] = {}


def preferences(kept: Any) -> dict[str, Any]:
    """A user's preferences, merged over the defaults."""
    found = kept.get("notifications", {}) if isinstance(kept, dict) else {}
    return {"notifications": {name: found.get(name, {"enabled": name in ON}) for name in RESOURCES}}


@ROUTES.get("/api/settings", "view", "settings.get")
def get_settings(request: Request) -> Steps:
    return data(preferences((yield ReadFeedPreferences())))


@ROUTES.put("/api/settings", "chat", "settings.put")
def put_settings(request: Request) -> Steps:
    given_preferences = BodyFields(request).body.get("notifications")
    if not isinstance(given_preferences, dict):
        raise BadRequest("notifications is required", field="notifications")
    for name, one in given_preferences.items():
        if name not in RESOURCES:
            raise BadRequest(f"There is no resource {name[:40]}", field="notifications")
        try:
            msgspec.convert(one, Preference)
        except msgspec.ValidationError:
            text = f"notifications.{name} must have enabled and may have subtypes, by action"
            raise BadRequest(text, field=name) from None
    kept = preferences((yield ReadFeedPreferences()))
    kept["notifications"] |= given_preferences
    yield WriteFeedPreferences(kept)
    return data(kept)


# --- targets


def _topics(fields: BodyFields) -> tuple[str, ...]:
    topics = fields.texts("topics")
    if topics is None:
        return USUAL
    if not topics or not SUBSCRIBABLE.issuperset(topics):
        raise BadRequest(
            f"topics must be some of: {', '.join((*TOPICS, *RESOURCES))}, or one of their kinds such as turn.failed"
            " or agent.complete",
            field="topics",
        )
    return tuple(dict.fromkeys(topics))


TARGETS: Final = ResourceCalls(Destination)
TARGETS.declare(ROUTES, "/api/targets", "list", "remove", access="admin")


@ROUTES.post("/api/targets", "admin", "targets.add")
def add_target(request: Request) -> Steps:
    fields = BodyFields(request)
    kind: Any = fields.choice("kind", KINDS)
    if kind is None:
        raise BadRequest(f"kind must be one of: {', '.join(KINDS)}", field="kind")
    url = fields.required("url", "url is required", 2000)
    secret = fields.text("secret", 500) or ""
    target, shown_once = yield AddTarget(
        Destination(id=request.fresh, kind=kind, url=url, topics=_topics(fields), secret=secret)
    )
    # A secret that the client chose is not sent back.
    return data(item_json(target) | ({} if secret or not shown_once else {"secret": shown_once}))


@ROUTES.post("/api/targets/{id}/test", "admin", "targets.test")
def try_target(request: Request) -> Steps:
    yield TryTarget(request.params["id"])
    return data({"success": True})


@ROUTES.get("/api/push/key", "view", "push.key")
def push_key(request: Request) -> Steps:
    return data({"publicKey": (yield PushKey())})


@ROUTES.post("/api/push/subscriptions", "chat", "push.subscribe")
def subscribe(request: Request) -> Steps:
    """Add a push subscription; the body is the browser's `PushSubscription` as JSON."""
    fields = BodyFields(request)
    keys = fields.body.get("keys")
    if not isinstance(keys, dict) or not all(isinstance(keys.get(name), str) for name in ("p256dh", "auth")):
        raise BadRequest("keys must have p256dh and auth as the browser gave them.", field="keys")
    url = fields.required("endpoint", "endpoint is required", 2000)
    topics = _topics(fields)
    target, _ = yield AddTarget(
        Destination(id=request.fresh, kind="push", url=url, topics=topics, p256dh=keys["p256dh"], auth=keys["auth"])
    )
    return data(item_json(target))


@ROUTES.delete("/api/push/subscriptions/{id}", "chat", "push.unsubscribe")
def unsubscribe(request: Request) -> Steps:
    target = yield from do(GetItem(Destination, request.params["id"]))
    if target.kind != "push":
        raise BadRequest("This target is not a browser's push subscription.")
    yield RemoveItem(Destination, target.id)
    return data({"success": True})
