"""REST for documents and memory. Pure."""

from pathlib import PurePosixPath
from typing import Any, Final

from fairlead.clients.cognova.body_fields import BodyFields, item_json, without_none
from fairlead.clients.cognova.resource_calls import Detail, ResourceCalls
from fairlead.clients.cognova.rest import data, new_routes
from fairlead.model.errors import BadRequest
from fairlead.model.web.requests import do
from fairlead.model.web.routes import Request, Steps
from fairlead.notifications.api.cognova import Document, MemoryResource
from fairlead.notifications.api.resources import AddItem, EditItem, GetItem, ListItems

BINARY: Final = "Cannot edit binary file metadata"
CHUNKS: Final = ("decision", "fact", "solution", "pattern", "preference", "summary")
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

ROUTES: Final = new_routes()


# --- documents


def _listed(document: Document) -> dict[str, Any]:
    return item_json(document, "body", "binary")


def _document(document: Document) -> Detail:
    yield from ()
    metadata = {"title": document.title, "tags": document.tags, "shared": document.shared}
    return {"document": _listed(document), "metadata": metadata, "body": document.body}


def _changes(fields: BodyFields) -> dict[str, Any]:
    changes = without_none(
        title=fields.given("title", "Document title is required"),
        tags=fields.texts("tags"),
        shared=fields.flag("shared"),
        body=fields.text("body"),
    )
    for name, field in (("projectId", "project_id"), ("shareType", "share_type")):
        if fields.has(name):
            changes[field] = fields.text(name, 100)
    return changes


@ROUTES.post("/api/documents/by-path", "chat", "documents.by-path")
def add_document(request: Request) -> Steps:
    """The document at a path; created if it does not exist."""
    fields = BodyFields(request, new=True)
    path = fields.required("path", "path is required")
    place = PurePosixPath(path)
    if place.is_absolute() or ".." in place.parts or not place.name:
        raise BadRequest("path must be a relative one that stays inside", field="path")
    there = yield from do(ListItems(Document, lambda one: one.path == str(place), 1))
    if there:
        return data((yield from _document(there[0])))
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
    return data((yield from _document((yield AddItem(document)))))


@ROUTES.put("/api/documents/{id}", "chat", "documents.edit")
def edit_document(request: Request) -> Steps:
    fields = BodyFields(request)
    document = yield from do(GetItem(Document, request.params["id"]))
    if document.binary:
        raise BadRequest(BINARY)
    return data((yield from _document((yield EditItem(Document, document.id, _changes(fields))))))


def _removed(document: Document) -> dict[str, Any]:
    return {"id": document.id, "deleted": True}


DOCUMENTS: Final = ResourceCalls(Document, show=_listed, detail=_document, removed=_removed)
DOCUMENTS.declare(ROUTES, "/api/documents", "list", "get", "remove", "restore")


# --- memory


def _memory(fields: BodyFields) -> dict[str, Any]:
    return without_none(
        content=fields.given("content", "content is required", 100_000, strip=False),
        chunk_type=fields.given_choice("chunkType", CHUNKS),
        session_id=fields.text("sessionId", 100) if fields.new else None,
        project_path=fields.text("projectPath", 4096),
        source_excerpt=fields.text("sourceExcerpt"),
        relevance_score=fields.number("relevanceScore", 0, 1),
    )


@ROUTES.get("/api/memory/search", "view", "memory.search")
def search_memory(request: Request) -> Steps:
    query = request.query
    words, path, chunk = query.get("query", "").lower(), query.get("projectPath", ""), query.get("chunkType", "")
    try:
        least = float(query.get("minRelevance", 0))
    except ValueError:
        raise BadRequest("minRelevance must be a number", field="minRelevance") from None

    def accept(one: MemoryResource) -> bool:
        return (
            (not words or words in one.content.lower())
            and (not path or one.project_path == path)
            and (not chunk or one.chunk_type == chunk)
            and one.relevance_score >= least
        )

    found = yield from do(ListItems(MemoryResource, accept, request.query_int("limit", 20, 1, 100)))
    return data([item_json(one) for one in found])


MEMORY: Final = ResourceCalls(MemoryResource, _memory)
ROUTES.post("/api/memory/store", "chat", "memory.store")(MEMORY.add)
MEMORY.declare(ROUTES, "/api/memory", "edit", "remove")
