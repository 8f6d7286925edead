"""All plugins of a gateway: the installed, the enabled and the running ones.

A plugin is enabled in the version that was shown: its digest is stored, and a changed plugin is not started again
until a person has approved it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from fairlead.model.auth import Identity
from fairlead.model.errors import BadRequest, NotAllowed, NotFound, Stale, Unavailable
from fairlead.model.store import Documents
from fairlead.model.web.requests import Response, ServiceHandlers
from fairlead.plugins import api as act
from fairlead.plugins.api import PluginSocket, PluginView
from fairlead.plugins.catalog import PluginFiles, scan
from fairlead.plugins.http_proxy import call_plugin
from fairlead.plugins.manifest import FILE
from fairlead.plugins.process import PATIENCE, PluginRunner
from fairlead.plugins.ws_proxy import HOST, WebSocketProxy, open_socket
from fairlead.system.clock import Clock, within
from fairlead.system.process import ChildProcess, spawn, stop_orphan
from fairlead.system.proctable import Process
from fairlead.system.sandbox import Sandbox

log = logging.getLogger("fairlead.plugins")

ENABLED: Final = "plugins"
"""The documents with the enabled plugins, each with the digest of its enabled version."""
CHILDREN: Final = "plugin-children"
"""The documents that name the servers' processes."""
HEALTH_SECONDS: Final = 2.0
_HANDED_ON: Final = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""Variables for user, location and language; none holds a token, key or address of the gateway."""
_DESCRIBED: Final = ("display_name", "version", "description", "author", "icon", "type", "slot", "entry")
"""Fields of a view that the manifest sets."""


def plugin_environment(host: Mapping[str, str]) -> dict[str, str]:
    """The complete environment of a plugin's server, taken from the host's; only the plugin's name is added later."""
    return {name: host[name] for name in _HANDED_ON if name in host}


class PluginSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`programs`: the interpreter for each file suffix; a file with another suffix is run directly."""

    folder: Path
    env: Mapping[str, str]
    programs: Mapping[str, str]
    message_bytes: int = 8 << 20
    sandbox: Sandbox | None = None
    """The paths that a server can see, apart from its own folder."""
    owner: str = ""
    """The mark of this gateway's data folder: servers that another gateway started are left alone."""


class EnabledPlugin(msgspec.Struct, frozen=True):
    digest: str
    at: int = 0
    by: str = ""


class OrphanProcess(msgspec.Struct, frozen=True):
    """The stored record of a server's process."""

    pid: int
    started: str
    group: int
    owner: str = ""


class PluginManager:
    def __init__(self, documents: Documents, clock: Clock, settings: PluginSettings) -> None:
        self._documents = documents
        self._clock = clock
        self._settings = settings
        self._runners: dict[str, PluginRunner] = {}
        self._bridges: set[WebSocketProxy] = set()
        self._changing = asyncio.Lock()
        self._stopped = False

    def handlers(self) -> ServiceHandlers:
        return {
            act.ListPlugins: self.list,
            act.EnablePlugin: self.enable,
            act.DisablePlugin: self.disable,
            act.JoinPlugin: self.join,
            act.CallPlugin: self.call,
        }

    async def start(self) -> None:
        """Stop the servers that an earlier gateway process left, then start the enabled plugins."""
        left = await self._documents.list(CHILDREN)
        await asyncio.gather(
            *(self._end_left(name, msgspec.convert(value, OrphanProcess)) for name, value in left.items())
        )
        permits = await self._permits()
        for found in (await self._scan()).values():
            if found.name in permits:
                self._start(found)

    async def stop(self) -> None:
        async with self._changing:
            self._stopped = True
            bridges = tuple(self._bridges)
            await asyncio.gather(*(runner.stop() for runner in self._runners.values()))
            for bridge in bridges:
                bridge.abort()
            await asyncio.gather(*(bridge.closed() for bridge in bridges))

    # --- service calls, and the page for the server

    async def list(self, who: Identity, action: act.ListPlugins) -> tuple[PluginView, ...]:
        found, permits = await self._scan(), await self._permits()
        views = [self._view(one, permits.get(one.name)) for one in found.values()]
        views += [
            PluginView(name=name, folder="", state="broken", enabled=True, problem="Its folder is gone.")
            for name in permits
            if name not in found
        ]
        healths = await asyncio.gather(*(self._health(view) for view in views))
        checked = (msgspec.structs.replace(view, healthy=well) for view, well in zip(views, healths, strict=True))
        return tuple(sorted(checked, key=lambda view: view.name))

    async def enable(self, who: Identity, action: act.EnablePlugin) -> PluginView:
        _admin(who)
        async with self._changing:
            found = (await self._scan()).get(action.name)
            if found is None:
                raise NotFound("plugin", action.name)
            if found.manifest is None:
                raise BadRequest(f"The plugin {found.name} cannot be enabled. {found.problem}", plugin=found.name)
            if found.digest != action.digest:
                raise _changed(found.name, "since it was shown")
            permit = EnabledPlugin(found.digest, self._clock.now_ms(), who.name)
            await self._documents.put(ENABLED, found.name, msgspec.to_builtins(permit))
            log.info("plugin enabled", extra={"plugin": found.name, "who": who.name, "credential": who.credential})
            await self._end(found.name)
            if not self._stopped:
                self._start(found)
            return self._view(found, permit)

    async def disable(self, who: Identity, action: act.DisablePlugin) -> PluginView:
        _admin(who)
        async with self._changing:
            found = (await self._scan()).get(action.name)
            removed = await self._documents.delete(ENABLED, action.name)
            if found is None and not removed:
                raise NotFound("plugin", action.name)
            await self._end(action.name)
            log.info("plugin disabled", extra={"plugin": action.name, "who": who.name, "credential": who.credential})
            return self._view(found or PluginFiles(name=action.name, folder="", problem="Its folder is gone."), None)

    async def join(self, who: Identity, action: act.JoinPlugin) -> PluginSocket:
        plugin = await open_socket(action, self._port(action.name), self._clock, self._settings.message_bytes)
        bridge = WebSocketProxy(plugin, self._clock, self._bridges.discard)
        self._bridges.add(bridge)
        log.info("plugin joined", extra={"plugin": action.name, "who": who.name, "credential": who.credential})
        return PluginSocket(bridge, plugin.subprotocol or "")

    async def call(self, who: Identity, action: act.CallPlugin) -> Response:
        return await call_plugin(action, self._port(action.name), self._clock, self._settings.message_bytes)

    async def page(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The folder with the files of an enabled plugin's page, and those files in it that do not belong to the page
        and are not served. Raises NotFound, Stale."""
        found, permits = await self._scan(), await self._permits()
        one, permit = found.get(name), permits.get(name)
        if one is None or permit is None or one.manifest is None:
            raise NotFound("enabled plugin", name)
        if one.digest != permit.digest:
            raise _changed(name, "since it was enabled")
        return one.folder, (FILE, one.manifest.script) if one.manifest.script else (FILE,)

    # --- `process.Children`

    async def remember(self, name: str, child: ChildProcess) -> None:
        left = OrphanProcess(child.pid, child.started, child.group, self._settings.owner)
        await self._documents.put(CHILDREN, name, msgspec.to_builtins(left))

    async def forget(self, name: str) -> None:
        await self._documents.delete(CHILDREN, name)

    # --- inside

    def _port(self, name: str) -> int:
        runner = self._runners.get(name)
        if runner is None or not runner.port:
            raise NotFound("running plugin", name)
        return runner.port

    async def _scan(self) -> dict[str, PluginFiles]:
        return await asyncio.to_thread(scan, self._settings.folder, self._settings.programs)

    async def _permits(self) -> dict[str, EnabledPlugin]:
        kept = await self._documents.list(ENABLED)
        return {name: msgspec.convert(value, EnabledPlugin) for name, value in kept.items()}

    def _start(self, found: PluginFiles) -> None:
        if found.argv:
            runner = self._runners[found.name] = PluginRunner(
                found.name, partial(self._launch, found.name), self, self._clock
            )
            runner.start()

    async def _end(self, name: str) -> None:
        runner = self._runners.pop(name, None)
        if runner is not None:
            await runner.stop()

    async def _end_left(self, name: str, left: OrphanProcess) -> None:
        if left.owner != self._settings.owner:
            await self.forget(name)
            return
        log.warning("plugin of an earlier gateway ended", extra={"plugin": name, "pid": left.pid})
        try:
            await stop_orphan(Process(left.pid, left.started), left.group, self._clock, PATIENCE)
        except TimeoutError:
            log.error("plugin did not end", extra={"plugin": name, "pid": left.pid})
        await self.forget(name)

    async def _launch(self, name: str) -> ChildProcess:
        """Start the server. Raises Stale if the plugin differs from the enabled version, Unavailable if that fails."""
        found = (await self._scan()).get(name)
        permit = (await self._permits()).get(name)
        if found is None or permit is None or found.digest != permit.digest:
            raise _changed(name, "since it was enabled")
        env = {**self._settings.env, "PLUGIN_NAME": name}
        sandbox = self._settings.sandbox and self._settings.sandbox.showing(writable=(found.folder,))
        try:
            return spawn(found.argv, env=env, cwd=found.folder, clock=self._clock, sandbox=sandbox)
        except OSError as error:
            raise Unavailable(f"{found.argv[0]} cannot be started: {error.strerror}.") from error

    def _view(self, found: PluginFiles, permit: EnabledPlugin | None) -> PluginView:
        runner = self._runners.get(found.name)
        state, problem = _state(found, permit, runner)
        view = PluginView(
            name=found.name,
            folder=found.folder,
            state=state,
            enabled=permit is not None,
            server=found.argv,
            digest=found.digest,
            port=runner.port if runner else 0,
            pid=runner.pid if runner else 0,
            restarts=runner.restarts if runner else 0,
            problem=problem,
        )
        if found.manifest is None:
            return view
        return msgspec.structs.replace(view, **{name: getattr(found.manifest, name) for name in _DESCRIBED})

    async def _health(self, view: PluginView) -> bool | None:
        if not view.port:
            return None
        with contextlib.suppress(OSError, TimeoutError):
            return await within(self._clock, HEALTH_SECONDS, _answers(view.port))
        return False


async def _answers(port: int) -> bool:
    """Whether the server answers a plain request with any HTTP response: a WebSocket server speaks HTTP."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n".encode())
        return (await reader.read(5)).startswith(b"HTTP")
    finally:
        writer.close()


def _state(found: PluginFiles, permit: EnabledPlugin | None, runner: PluginRunner | None) -> tuple[act.State, str]:
    changed = permit is not None and permit.digest != found.digest
    if runner is not None and runner.state != "changed":
        return runner.state, _changed(found.name, "since it was started").message if changed else runner.problem
    if found.manifest is None:
        return "broken", found.problem
    if permit is None:
        return "disabled", ""
    if changed or runner is not None:
        return "changed", _changed(found.name, "since it was enabled").message
    return "page", ""


def _changed(name: str, since: str) -> Stale:
    return Stale(
        f"The plugin {name} has changed {since}: look at it, and enable it again with: fairlead plugins enable {name}",
        plugin=name,
    )


def _admin(who: Identity) -> None:
    if not who.may("admin"):
        raise NotAllowed("Enabling and disabling plugins needs the scope admin.", scope="admin")
