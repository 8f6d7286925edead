"""REST for documents, memory, secrets, hook events and settings. Pure."""

import re
from pathlib import PurePosixPath
from typing import Any, Final

from fairlead.clients.cognova.body_fields import (
    BodyFields,
    item_json,
    not_found_message,
    read_time,
    route,
    without_none,
)
from fairlead.clients.cognova.rest import data, problem, with_errors
from fairlead.model.errors import BadRequest, Stale
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.cognova import Document, HookEvent, MemoryResource, RevealSecret, Secret
from fairlead.notifications.api.feed import CHANGE_ACTIONS, RESOURCES, ReadFeedPreferences, WriteFeedPreferences
from fairlead.notifications.api.resources import AddItem, EditItem, GetItem, ListItems, RemoveItem, RestoreItem

NO_DOCUMENT: Final = "Document not found"
NO_MEMORY: Final = "Memory not found"
NO_HOOK: Final = "Hook event not found"
NO_SECRET: Final = 'Secret with key "{id}" not found'
BINARY: Final = "Cannot edit binary file metadata"
CHUNKS: Final = ("decision", "fact", "solution", "pattern", "preference", "summary")
HOOKS: Final = ("SessionStart", "SessionEnd", "PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit")
KEY: Final = re.compile(r"[A-Z][A-Z0-9_]*")
KEY_LENGTH: Final = 255
BAD_KEY: Final = "Key must be uppercase letters, digits and underscores, beginning with a letter"
TEXT_TYPES: Final = {".md": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".csv": "text/csv"}
BINARY_TYPES: Final = {
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".zip": "application/zip",
}
ON: Final = frozenset({"task", "reminder", "agent", "memory", "project", "secret"})
"""Resources whose changes a client shows by default."""


# --- documents


def _document(document: Document) -> dict[str, Any]:
    fields = item_json(document, "body", "binary")
    metadata = {"title": document.title, "tags": document.tags, "shared": document.shared}
    return {"document": fields, "metadata": metadata, "body": document.body}


@with_errors
def list_documents(request: Request) -> Steps:
    deleted = request.query.get("includeDeleted") == "true"
    return data([item_json(one, "body", "binary") for one in (yield ListItems(Document, deleted=deleted))])


@not_found_message(NO_DOCUMENT)
def get_document(request: Request) -> Steps:
    return data(_document((yield GetItem(Document, request.params["id"]))))


@with_errors
def add_document(request: Request) -> Steps:
    """The document at a path; created if it does not exist."""
    fields = BodyFields(request)
    path = fields.required("path", "path is required")
    place = PurePosixPath(path)
    if place.is_absolute() or ".." in place.parts or not place.name:
        raise BadRequest("path must be a relative one that stays inside", field="path")
    there: tuple[Document, ...] = yield ListItems(Document, lambda one: one.path == str(place), 1)
    if there:
        return data(_document(there[0]))
    suffix = place.suffix.lower()
    document = Document(
        id=request.fresh,
        path=str(place),
        title=fields.text("title", 500) or place.stem,
        tags=fields.texts("tags") or (),
        project_id=fields.text("projectId", 100),
        mime_type=TEXT_TYPES.get(suffix) or BINARY_TYPES.get(suffix, "text/plain"),
        binary=suffix in BINARY_TYPES,
        body="" if suffix in BINARY_TYPES else fields.text("body") or "",
    )
    return data(_document((yield AddItem(document))))


@not_found_message(NO_DOCUMENT)
def edit_document(request: Request) -> Steps:
    fields = BodyFields(request)
    document: Document = yield GetItem(Document, request.params["id"])
    if document.binary:
        raise BadRequest(BINARY)
    changes = without_none(
        title=fields.required("title", "Document title is required") if fields.has("title") else None,
        tags=fields.texts("tags"),
        shared=fields.flag("shared"),
        body=fields.text("body"),
    )
    for name, field in (("projectId", "project_id"), ("shareType", "share_type")):
        if fields.has(name):
            changes[field] = fields.text(name, 100)
    return data(_document((yield EditItem(Document, document.id, changes))))


@not_found_message(NO_DOCUMENT)
def remove_document(request: Request) -> Steps:
    gone: Document = yield RemoveItem(Document, request.params["id"])
    return data({"id": gone.id, "deleted": True})


@not_found_message(NO_DOCUMENT)
def restore_document(request: Request) -> Steps:
    try:
        return data(_document((yield RestoreItem(Document, request.params["id"]))))
    except Stale as error:
        return problem(400, error.message)


# --- memory


def _chunk(fields: BodyFields) -> str:
    if not fields.body.get("chunkType"):
        raise BadRequest("chunkType is required", field="chunkType")
    return fields.choice("chunkType", CHUNKS) or ""


def _number(request: Request, name: str, default: float) -> float:
    try:
        return float(request.query.get(name, default))
    except ValueError:
        raise BadRequest(f"{name} must be a number", field=name) from None


@with_errors
def search_memory(request: Request) -> Steps:
    query = request.query
    words, path, chunk = query.get("query", "").lower(), query.get("projectPath", ""), query.get("chunkType", "")
    least = _number(request, "minRelevance", 0.0)

    def accept(one: MemoryResource) -> bool:
        return (
            (not words or words in one.content.lower())
            and (not path or one.project_path == path)
            and (not chunk or one.chunk_type == chunk)
            and one.relevance_score >= least
        )

    found: tuple[MemoryResource, ...] = yield ListItems(MemoryResource, accept, request.query_int("limit", 20, 1, 100))
    return data([item_json(one) for one in found])


@with_errors
def store_memory(request: Request) -> Steps:
    fields = BodyFields(request)
    content = fields.required("content", "content is required", 100_000, strip=False)
    memory = MemoryResource(
        id=request.fresh,
        content=content,
        chunk_type=_chunk(fields),
        session_id=fields.text("sessionId", 100),
        project_path=fields.text("projectPath", 4096),
        source_excerpt=fields.text("sourceExcerpt"),
        **without_none(relevance_score=fields.number("relevanceScore", 0, 1)),
    )
    return data(item_json((yield AddItem(memory))))


@not_found_message(NO_MEMORY)
def edit_memory(request: Request) -> Steps:
    fields = BodyFields(request)
    changes = without_none(
        content=fields.required("content", "content is required", 100_000, strip=False)
        if fields.has("content")
        else None,
        chunk_type=_chunk(fields) if fields.has("chunkType") else None,
        project_path=fields.text("projectPath", 4096),
        source_excerpt=fields.text("sourceExcerpt"),
        relevance_score=fields.number("relevanceScore", 0, 1),
    )
    return data(item_json((yield EditItem(MemoryResource, request.params["id"], changes))))


@not_found_message(NO_MEMORY)
def remove_memory(request: Request) -> Steps:
    yield RemoveItem(MemoryResource, request.params["id"])
    return data({"success": True})


# --- secrets


def _secret(secret: Secret) -> dict[str, Any]:
    fields = item_json(secret)
    return {name: fields[name] for name in ("id", "key", "description", "createdAt")}


@with_errors
def list_secrets(request: Request) -> Steps:
    return data([_secret(secret) for secret in (yield ListItems(Secret))])


@not_found_message(NO_SECRET)
def get_secret(request: Request) -> Steps:
    secret: Secret = yield GetItem(Secret, request.params["key"])
    return data(_secret(secret) | {"value": (yield RevealSecret(secret.key))})


@with_errors
def add_secret(request: Request) -> Steps:
    fields = BodyFields(request)
    key = fields.required("key", "key is required", strip=False)
    if len(key) > KEY_LENGTH or not KEY.fullmatch(key):
        raise BadRequest(BAD_KEY, field="key")
    value = fields.required("value", "value is required", 100_000, strip=False)
    secret = Secret(id=request.fresh, key=key, description=fields.text("description", 1000) or "")
    return data(_secret((yield AddItem(secret, value))))


@not_found_message(NO_SECRET)
def edit_secret(request: Request) -> Steps:
    fields = BodyFields(request)
    changes = without_none(
        value=fields.required("value", "value is required", 100_000, strip=False) if fields.has("value") else None,
        description=fields.text("description", 1000),
    )
    return data(_secret((yield EditItem(Secret, request.params["key"], changes))))


@not_found_message(NO_SECRET)
def remove_secret(request: Request) -> Steps:
    yield RemoveItem(Secret, request.params["key"])
    return data({"deleted": True})


# --- hook events


def _hook(fields: BodyFields) -> dict[str, Any]:
    return without_none(
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


@with_errors
def add_hook(request: Request) -> Steps:
    fields = BodyFields(request)
    if not fields.body.get("eventType"):
        raise BadRequest("eventType is required", field="eventType")
    kind = fields.choice("eventType", HOOKS) or ""
    return data(item_json((yield AddItem(HookEvent(id=request.fresh, event_type=kind, **_hook(fields))))))


@with_errors
def list_hooks(request: Request) -> Steps:
    query = request.query
    wanted = [(field, query[name]) for name, field in _FILTERS if query.get(name)]
    since = read_time("since", query["since"]) if query.get("since") else 0
    blocked = query.get("blocked", "")

    def accept(one: HookEvent) -> bool:
        return (
            all(getattr(one, field) == value for field, value in wanted)
            and one.created_at >= since
            and (blocked not in ("true", "false") or one.blocked == (blocked == "true"))
        )

    found: tuple[HookEvent, ...] = yield ListItems(HookEvent, accept, request.query_int("limit", 100, 1, 500))
    return data([item_json(one) for one in found])


_FILTERS: Final = (("eventType", "event_type"), ("sessionId", "session_id"), ("toolName", "tool_name"))


@not_found_message(NO_HOOK)
def edit_hook(request: Request) -> Steps:
    return data(item_json((yield EditItem(HookEvent, request.params["id"], _hook(BodyFields(request))))))


@not_found_message(NO_HOOK)
def remove_hook(request: Request) -> Steps:
    yield RemoveItem(HookEvent, request.params["id"])
    return data({"success": True})


# --- settings


def preferences(kept: Any) -> dict[str, Any]:
    """A user's preferences, merged over the defaults."""
    found = kept.get("notifications", {}) if isinstance(kept, dict) else {}
    return {"notifications": {name: found.get(name, {"enabled": name in ON}) for name in RESOURCES}}


@with_errors
def get_settings(request: Request) -> Steps:
    return data(preferences((yield ReadFeedPreferences())))


@with_errors
def put_settings(request: Request) -> Steps:
    given_preferences = BodyFields(request).body.get("notifications")
    if not isinstance(given_preferences, dict):
        raise BadRequest("notifications is required", field="notifications")
    for name, one in given_preferences.items():
        if name not in RESOURCES:
            raise BadRequest(f"There is no resource {name[:40]}", field="notifications")
        _check_preference(name, one)
    kept = preferences((yield ReadFeedPreferences()))
    kept["notifications"] |= given_preferences
    yield WriteFeedPreferences(kept)
    return data(kept)


def _check_preference(name: str, one: Any) -> None:
    subtypes = one.get("subtypes", {}) if isinstance(one, dict) else None
    if (
        not isinstance(one, dict)
        or not isinstance(one.get("enabled"), bool)
        or not one.keys() <= {"enabled", "subtypes"}
        or not isinstance(subtypes, dict)
        or not all(action in CHANGE_ACTIONS and isinstance(value, bool) for action, value in subtypes.items())
    ):
        raise BadRequest(f"notifications.{name} must have enabled and may have subtypes, by action", field=name)


ROUTES: Final = (
    route("GET", "/api/documents", "view", list_documents, "Documents, newest first, without their bodies."),
    route("POST", "/api/documents/by-path", "chat", add_document, "The document of a path, made if there is none."),
    route("GET", "/api/documents/{id}", "view", get_document, "One document, with its body."),
    route("PUT", "/api/documents/{id}", "chat", edit_document, "Change a document."),
    route("DELETE", "/api/documents/{id}", "chat", remove_document, "Delete a document; it can be restored."),
    route("POST", "/api/documents/{id}/restore", "chat", restore_document, "Restore a deleted document."),
    route("GET", "/api/memory/search", "view", search_memory, "What is remembered, newest first."),
    route("POST", "/api/memory/store", "chat", store_memory, "Remember something."),
    route("PUT", "/api/memory/{id}", "chat", edit_memory, "Change what is remembered."),
    route("DELETE", "/api/memory/{id}", "chat", remove_memory, "Forget it."),
    route("GET", "/api/secrets", "admin", list_secrets, "The keys of secrets; never their values."),
    route("POST", "/api/secrets", "admin", add_secret, "A new secret, sealed at rest."),
    route("GET", "/api/secrets/{key}", "admin", get_secret, "One secret, with its value."),
    route("PUT", "/api/secrets/{key}", "admin", edit_secret, "Another value or description."),
    route("DELETE", "/api/secrets/{key}", "admin", remove_secret, "Delete a secret for good."),
    route("GET", "/api/hooks/events", "view", list_hooks, "Hook events, newest first."),
    route("POST", "/api/hooks/events", "chat", add_hook, "Tell a hook event."),
    route("PUT", "/api/hooks/events/{id}", "chat", edit_hook, "Complete a hook event."),
    route("DELETE", "/api/hooks/events/{id}", "chat", remove_hook, "Delete a hook event."),
    route("GET", "/api/settings", "view", get_settings, "Which changes this user wants shown."),
    route("PUT", "/api/settings", "chat", put_settings, "Set them; the client filters, the feed does not."),
)
