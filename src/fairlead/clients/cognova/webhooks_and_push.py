"""REST for external targets: webhooks, ntfy topics and the push services of browsers. Pure."""

from typing import Any, Final

from fairlead.clients.cognova.body_fields import BodyFields, item_json, not_found_message, route
from fairlead.clients.cognova.rest import data, with_errors
from fairlead.model.errors import BadRequest
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.feed import RESOURCES, SUBSCRIBABLE, TOPICS
from fairlead.notifications.api.resources import GetItem, ListItems, RemoveItem
from fairlead.notifications.api.targets import AddTarget, Destination, PushKey, TryTarget

NO_TARGET: Final = "Target not found"
KINDS: Final = ("webhook", "ntfy")
USUAL: Final = ("permission.asked", "turn", "reminder.complete", "agent.complete", "agent.fail", "agent.cancel")
"""The default topics, for a person who is away."""


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


@with_errors
def list_targets(request: Request) -> Steps:
    return data([item_json(target) for target in (yield ListItems(Destination))])


@with_errors
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


@not_found_message(NO_TARGET)
def remove_target(request: Request) -> Steps:
    yield RemoveItem(Destination, request.params["id"])
    return data({"success": True})


@not_found_message(NO_TARGET)
def try_target(request: Request) -> Steps:
    yield TryTarget(request.params["id"])
    return data({"success": True})


@with_errors
def push_key(request: Request) -> Steps:
    return data({"publicKey": (yield PushKey())})


@with_errors
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


@not_found_message(NO_TARGET)
def unsubscribe(request: Request) -> Steps:
    target: Destination = yield GetItem(Destination, request.params["id"])
    if target.kind != "push":
        raise BadRequest("This is no subscription of a browser.")
    yield RemoveItem(Destination, target.id)
    return data({"success": True})


ROUTES: Final = (
    route("GET", "/api/targets", "admin", list_targets, "Where notices go outside; no secrets."),
    route("POST", "/api/targets", "admin", add_target, "A webhook or an ntfy topic."),
    route("DELETE", "/api/targets/{id}", "admin", remove_target, "Send nothing there any more."),
    route("POST", "/api/targets/{id}/test", "admin", try_target, "Send a test there, now."),
    route("GET", "/api/push/key", "view", push_key, "The key that a browser needs to subscribe."),
    route("POST", "/api/push/subscriptions", "chat", subscribe, "A browser's push subscription."),
    route("DELETE", "/api/push/subscriptions/{id}", "chat", unsubscribe, "Take it back."),
)
