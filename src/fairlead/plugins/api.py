"""The plugin port: programs of a person's choice beside the gateway, each with a page, a server, or both.

The room `plugins` implements it. Nothing of what is run comes from a wire: it stands in the plugin's own manifest, and
a person has enabled exactly that.
"""

from typing import Literal, Protocol

import msgspec

from fairlead.model.errors import FairleadError
from fairlead.model.requests import ServiceCall
from fairlead.model.sockets import SocketProxy

State = Literal["broken", "disabled", "changed", "page", "starting", "running", "waiting"]
"""Where a plugin is: its manifest cannot be used; nobody enabled it; it is another than was enabled; it has a page and
no server; its server starts, runs, or has ended and is started again in a while."""


class PluginFailed(FairleadError):
    """The plugin's side: its server cannot be reached, or does not answer."""

    code = "plugin_failed"
    status = 502

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"The plugin {name} {problem}. See how it does with: fairlead plugins", plugin=name, problem=problem
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


class ListPlugins(ServiceCall, frozen=True):
    """-> tuple of `PluginView`, by name"""


class EnablePlugin(ServiceCall, frozen=True):
    """-> `PluginView`. `digest` is the view's: what was shown is what runs, Stale if it has changed. NotFound;
    BadRequest if its manifest cannot be used."""

    name: str
    digest: str


class DisablePlugin(ServiceCall, frozen=True):
    """-> `PluginView`; its server has ended. NotFound"""

    name: str


class JoinPlugin(ServiceCall, frozen=True, kw_only=True):
    """-> `PluginSocket`: a socket of the plugin's server, open. NotFound if it does not run; PluginFailed.

    `query`, `headers` and `subprotocols` are the client's, without anything that is ours to know."""

    name: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    subprotocols: tuple[str, ...] = ()


class PluginSocket(msgspec.Struct, frozen=True):
    """Whoever has it passes a client's socket to `relay`. `subprotocol` is what the plugin chose."""

    relay: SocketProxy
    subprotocol: str = ""


class CallPlugin(ServiceCall, frozen=True, kw_only=True):
    """-> `Response`: what the plugin's server answers to this HTTP request. NotFound if it does not run;
    PluginFailed."""

    name: str
    method: str
    path: str
    query: str = ""
    body: bytes = b""
    content_type: str = "application/json"


class ReadPluginFile(ServiceCall, frozen=True):
    """-> `Response` with a file of the plugin's page. NotFound; Stale, if the plugin is another than was enabled.
    `known` is the browser's If-None-Match."""

    name: str
    path: str
    known: str = ""


class PluginFolder(msgspec.Struct, frozen=True):
    """Where the files of an enabled plugin's page are; `kept_back` are files of the folder that are none of it."""

    path: str
    kept_back: tuple[str, ...] = ()


class PluginPages(Protocol):
    """What the server needs to know to serve pages."""

    async def page(self, name: str) -> PluginFolder:
        """NotFound; Stale."""
        ...
