"""Plugins: the socket /plugin-ws/NAME, the list, and the files of their pages. Pure.

The plugin's own socket is opened before the client's upgrade is accepted. Of the client's request the plugin gets the
query and some headers; the token, the ticket and everything else that is between the client and Fairlead is removed.
"""

import re
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec

from fairlead.clients.claudecodeui.rest.responses import SMALL
from fairlead.clients.claudecodeui.unknown_socket import RejectSocket
from fairlead.model.errors import FairleadError, NotAllowed, NotFound
from fairlead.model.web.requests import Head, Response, do
from fairlead.model.web.routes import METHODS, Request, Route, Routes, Steps, json_response
from fairlead.model.web.sockets import AcceptedSubprotocol, AttachOwner, Check, CloseSocket, Handshake, SocketRoute
from fairlead.plugins.api import CallPlugin, DisablePlugin, JoinPlugin, ListPlugins, PluginView, ReadPluginFile

INVALID_NAME: Final = CloseSocket(4400, "Invalid plugin name")
NOT_RUNNING: Final = CloseSocket(4404, "Plugin not running")
UPSTREAM_ERROR: Final = CloseSocket(4502, "Upstream error")

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]+")
_OURS: Final = frozenset({"token", "ticket"})
"""Query names that carry a client's credentials."""
_PASSED_ON: Final = frozenset({"accept-language", "traceparent", "tracestate", "user-agent", "x-request-id"})
_PLUGINS_OWN: Final = "x-plugin-"
"""Prefix of the headers that a client may send to a plugin."""

ROUTES: Final = Routes("claudecodeui.")


class _EnableBody(msgspec.Struct, frozen=True):
    enabled: bool


def join(opening: Handshake) -> Check:
    name = opening.params["name"]
    if not _NAME.fullmatch(name):
        return AcceptedSubprotocol((INVALID_NAME,))
    head = opening.head
    query, headers = passed_query(head.query), passed_headers(head)
    try:
        joined = yield from do(JoinPlugin(name=name, query=query, headers=headers, subprotocols=offered(head)))
    except NotFound:
        return AcceptedSubprotocol((NOT_RUNNING,))
    except FairleadError:
        return AcceptedSubprotocol((UPSTREAM_ERROR,))
    return AcceptedSubprotocol((AttachOwner(joined.relay),), joined.subprotocol)


def passed_query(query: str) -> str:
    """The query unchanged, but without credentials: names are decoded and lowercased before the comparison."""
    fields = (field for field in query.split("&") if field)
    return "&".join(field for field in fields if unquote_plus(field.partition("=")[0]).lower() not in _OURS)


def passed_headers(head: Head) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in head.headers if name in _PASSED_ON or name.startswith(_PLUGINS_OWN))


def offered(head: Head) -> tuple[str, ...]:
    """The offered subprotocols, in the client's order."""
    names = (name.strip() for value in head.all("sec-websocket-protocol") for name in value.split(","))
    return tuple(name for name in names if name)


@ROUTES.get("/api/plugins", "view", "plugins")
def list_plugins(request: Request) -> Steps:
    views = yield from do(ListPlugins())
    return json_response({"plugins": [_fields(view) for view in views]})


@ROUTES.put("/api/plugins/{name}/enable", "admin", "plugins.enable", body=_EnableBody, body_limit=SMALL)
def set_enabled(request: Request) -> Steps:
    """Switch a plugin off. Switching on is possible only on the command line, where a person sees what would run."""
    name = request.params["name"]
    if request.json(_EnableBody).enabled:
        raise NotAllowed(
            f"Look at what the plugin would run, and enable it with: fairlead plugins enable {name}", plugin=name
        )
    view = yield from do(DisablePlugin(name))
    return json_response({"success": True, "name": view.name, "enabled": False})


@ROUTES.get("/api/plugins/{name}/assets/{path...}", "view", "plugins.asset", signed=True)
def read_file(request: Request) -> Steps:
    known = request.head.first("if-none-match")
    response = yield from do(ReadPluginFile(request.params["name"], request.params["path"], known))
    return response


def call(request: Request) -> Steps:
    """A page's call to its plugin's server, which gets the request's method, path, query and body."""
    head = request.head
    response: Response = yield CallPlugin(
        name=request.params["name"],
        method=head.method,
        path=request.params["path"],
        query=passed_query(head.query),
        body=request.body,
        content_type=head.first("content-type") or "application/json",
    )
    return response


ROUTES.extend(
    Route(
        method=method,
        path="/api/plugins/{name}/rpc/{path...}",
        access="terminal",
        name=f"claudecodeui.plugins.call.{method.lower()}",
        handle=call,
    )
    for method in METHODS
)


def _fields(view: PluginView) -> dict[str, Any]:
    """The fields that the app reads. A changed plugin counts as off until a person has approved it."""
    return {
        "name": view.name,
        "displayName": view.display_name or view.name,
        "version": view.version,
        "description": view.description,
        "author": view.author,
        "icon": view.icon,
        "type": view.type,
        "slot": view.slot,
        "entry": view.entry,
        "server": " ".join(view.server) or None,
        "enabled": view.enabled and view.state not in ("broken", "changed"),
        "serverRunning": view.state == "running",
        "state": view.state,
        "healthy": view.healthy,
        "problem": view.problem,
    }


SOCKET: Final = SocketRoute(
    path="/plugin-ws/{name...}",
    # A plugin's server may do everything that its user may, like a shell.
    access="terminal",
    name="claudecodeui.plugin",
    # A placeholder: `check` decides what happens to the socket before it is open.
    open=lambda opening: RejectSocket(),
    check=join,
)
