"""The REST calls that the kinds of resources have in common: list, get, add, edit, remove and restore. Pure."""

from collections.abc import Callable, Generator
from typing import Any

from fairlead.clients.cognova.body_fields import BodyFields, item_json
from fairlead.clients.cognova.rest import data, problem
from fairlead.model.auth import Scope
from fairlead.model.errors import Stale
from fairlead.model.web.requests import Step
from fairlead.model.web.routes import Request, Routes, Steps
from fairlead.notifications.api.resources import (
    AddItem,
    EditItem,
    GetItem,
    ListItems,
    RemoveItem,
    Resource,
    RestoreItem,
)

Json = dict[str, Any]
Detail = Generator[Step, Any, Json]


class ResourceCalls:
    """The handlers for one kind of resource.

    `read`: the values that a body sets, of a new item or of an edited one. `show`: an item in a list. `detail`: steps
    that return an item as the answer to all other calls. `removed`: the answer to a removal."""

    def __init__(
        self,
        kind: type[Resource],
        read: Callable[[BodyFields], Json] = lambda fields: {},
        *,
        show: Callable[[Any], Json] = item_json,
        detail: Callable[[Any], Detail] | None = None,
        removed: Callable[[Any], Json] = lambda item: {"success": True},
    ) -> None:
        self._kind = kind
        self._read = read
        self._show = show
        self._detail = detail or self._shown
        self._removed = removed

    def declare(self, routes: Routes, path: str, *calls: str, access: Scope | None = None) -> None:
        """Declare the named calls at their usual paths. `access`: instead of `view` and `chat`."""
        name, one = path.removeprefix("/api/").replace("/", "."), f"{path}/{{id}}"
        read, write = access or "view", access or "chat"
        known = {
            "list": (routes.get(path, read, f"{name}.list"), self.list_items),
            "add": (routes.post(path, write, f"{name}.add"), self.add),
            "get": (routes.get(one, read, f"{name}.get"), self.get),
            "edit": (routes.put(one, write, f"{name}.edit"), self.edit),
            "remove": (routes.delete(one, write, f"{name}.remove"), self.remove),
            "restore": (routes.post(f"{one}/restore", write, f"{name}.restore"), self.restore),
        }
        for call in calls:
            declared, handler = known[call]
            declared(handler)

    def list_items(self, request: Request) -> Steps:
        """The items, newest first; with `includeDeleted=true` also those that can be restored."""
        deleted = request.query.get("includeDeleted") == "true"
        return data([self._show(item) for item in (yield ListItems(self._kind, deleted=deleted))])

    def get(self, request: Request) -> Steps:
        return data((yield from self._detail((yield GetItem(self._kind, request.params["id"])))))

    def add(self, request: Request) -> Steps:
        item = self._kind(id=request.fresh, **self._read(BodyFields(request, new=True)))
        return data((yield from self._detail((yield AddItem(item)))))

    def edit(self, request: Request) -> Steps:
        changes = self._read(BodyFields(request))
        return data((yield from self._detail((yield EditItem(self._kind, request.params["id"], changes)))))

    def remove(self, request: Request) -> Steps:
        return data(self._removed((yield RemoveItem(self._kind, request.params["id"]))))

    def restore(self, request: Request) -> Steps:
        try:
            return data((yield from self._detail((yield RestoreItem(self._kind, request.params["id"])))))
        except Stale as error:
            return problem(400, error.message)

    def _shown(self, item: Resource) -> Detail:
        yield from ()
        return self._show(item)
