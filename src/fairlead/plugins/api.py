"""The plugin port: programs of a person's choice next to the gateway, each with a page, a server, or both.

`plugins.manager` implements it. No part of a command line comes from a client: the plugin's own manifest defines it,
and a person has enabled exactly that version.
"""

from typing import Literal

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.web.requests import Response, ServiceCall
from fairlead.model.web.routes import FileStream
from fairlead.model.web.sockets import SocketOwner

State = Literal["broken", "disabled", "changed", "page", "starting", "running", "waiting"]
"""A plugin's state: its manifest is unusable; it is not enabled; it differs from the enabled version; it has a page but
no server; its server starts, runs, or has ended and will be restarted after a pause."""


class PluginFailed(FairleadError, code="plugin_failed", status=502):
    """A failure of the plugin: its server cannot be reached, or does not answer."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"The plugin {name} {problem}. Show its state with: fairlead plugins", plugin=name, problem=problem
        )


class PluginView(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as it is now. `server`: the arguments that are run, empty if there is nothing to run. `digest` names
    what a person is asked about: the manifest and the files it names. `healthy`: its port answers; null
    if it does not run. `problem`: why it does not run, in words."""

    name: str
    folder: str
    state: State
    enabled: bool = False
    display_name: str = ""
    version: str = ""
    description: str = ""
    author: str = ""
    icon: str = ""
    type: str = ""
    slot: str = ""
    entry: str = ""
    server: tuple[str, ...] = ()
    digest: str = ""
    port: int = 0
    pid: int = 0
    healthy: bool | None = None
    restarts: int = 0
    problem: str = ""


class ListPlugins(ServiceCall["tuple[PluginView, ...]"], frozen=True):
    """-> tuple of `PluginView`, by name"""


class EnablePlugin(ServiceCall["PluginView"], frozen=True):
    """-> `PluginView`. `digest` is that of the view, so that the version that was shown is the one that runs; Stale if
    the plugin has changed. NotFound; BadRequest if its manifest is unusable."""

    name: str
    digest: str


class DisablePlugin(ServiceCall["PluginView"], frozen=True):
    """-> `PluginView`, after its server has ended. NotFound"""

    name: str


class JoinPlugin(ServiceCall["PluginSocket"], frozen=True, kw_only=True):
    """-> `PluginSocket`: an open socket to the plugin's server. NotFound if it does not run; PluginFailed.

    `query`, `headers` and `subprotocols` are the client's, without its credentials for Fairlead."""

    name: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    subprotocols: tuple[str, ...] = ()


class PluginSocket(msgspec.Struct, frozen=True):
    """The caller attaches the client's socket to `relay`. `subprotocol` is the plugin's choice."""

    relay: SocketOwner
    subprotocol: str = ""


class CallPlugin(ServiceCall[Response], frozen=True, kw_only=True):
    """-> `Response`: the answer of the plugin's server to this HTTP request. NotFound if it does not run;
    PluginFailed."""

    name: str
    method: str
    path: str
    query: str = ""
    body: bytes = b""
    content_type: str = "application/json"


class ReadPluginFile(ServiceCall[Response | FileStream], frozen=True):
    """-> `Response` with a file of the plugin's page. NotFound; Stale if the plugin differs from the enabled version.
    `known` is the browser's If-None-Match."""

    name: str
    path: str
    known: str = ""
