"""The settings of each part, from the settings of the gateway."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairlead.auth.origins import AllowedOrigins
from fairlead.config import Config
from fairlead.model.errors import BadRequest
from fairlead.model.policy import Behavior, Rule, parse_rule
from fairlead.model.web.routes import ClientProtocol
from fairlead.plugins.manager import PluginSettings, plugin_environment
from fairlead.review.private_repository import GitAccess
from fairlead.server import limits as serving
from fairlead.server.doors import Door, OpenDoor
from fairlead.server.listeners import Binding, public_origin
from fairlead.sessions.permissions.policy.call import Fences
from fairlead.system.sandbox import Sandbox
from fairlead.system.user_folders import default_file
from fairlead.terminals.launcher.programs import PROVIDERS, Provider
from fairlead.terminals.shells import ShellSettings, shell_environment
from fairlead.uploads.service import Uploads


def git_access(env: Mapping[str, str], sandbox: Sandbox | None) -> GitAccess:
    """Return how the gateway runs git: in the sandbox of agents, with the settings of its user."""
    home = env.get("HOME", "")
    more = env.get("XDG_CONFIG_HOME", "") or os.path.join(home, ".config")
    files = (os.path.join(home, ".gitconfig"), os.path.join(more, "git", "config"))
    return GitAccess(sandbox, next((path for path in files if home and os.path.isfile(path)), ""))


def server_binding(config: Config) -> Binding:
    return Binding(
        host=config.host,
        port=config.port,
        tls_cert=Path(config.tls_cert) if config.tls_cert else None,
        tls_key=Path(config.tls_key) if config.tls_key else None,
        public_url=config.public_url,
        insecure_lan=config.insecure_lan,
        trusted_proxies=config.trusted_proxy,
        origins=config.origins,
    )


def wanted_doors(config: Config) -> list[Door]:
    return [
        Door(
            name=name,
            port=door.port,
            static=Path(door.static).expanduser() if door.static else None,
            public_url=door.public_url,
            login=door.login,
            options=door.options,
        )
        for name, door in config.door.items()
    ]


def server_limits(config: Config, files: int) -> serving.ServerLimits:
    """Return the limits of the server. `files`: the number of descriptors that the process may have open."""
    return serving.ServerLimits(
        descriptors=files,
        message_bytes=config.frame_bytes,
        commands_per_s=config.commands_per_second,
        waiting=config.waiting_sockets,
        waiting_per_address=config.waiting_per_address,
        open_per_credential=config.sockets_per_credential,
        bytes_per_credential=config.credential_bytes,
        # Twice the buffer of a subscription, so that a client that still reads history can send commands.
        unread=2 * config.watcher_bytes,
    )


def rules_of(config: Config) -> tuple[Rule, ...]:
    return tuple(
        parse_rule(text, behavior, "settings")
        for texts, behavior in (
            (config.deny, Behavior.DENY),
            (config.ask, Behavior.ASK),
            (config.allow, Behavior.ALLOW),
        )
        for text in texts
    )


def tool_fences(
    folders: Sequence[Path], uploads: Uploads, origins: AllowedOrigins, doors: Sequence[OpenDoor]
) -> Fences:
    """Return the folders, ports and host names that no tool may touch, whatever the rules allow. The folders include
    the programs that the gateway starts by itself; hosts and ports include those of the public URLs."""
    kept = tuple(os.path.realpath(folder) for folder in folders)
    published = [origins.public, *(public_origin(door.binding) for door in doors)]
    public = [origin for origin in published if origin is not None]
    ports = (min(origins.ports), *(door.port for door in doors), *(origin.port for origin in public))
    hosts = origins.names | {origin.host for origin in public}
    return Fences(kept, tuple(dict.fromkeys(ports)), hosts, attached=str(uploads.folder))


def settings_places(file: Path, env: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the settings file and its default folder, which determine what the gateway does at its next start."""
    return file, default_file(env).parent


def make_settings_folder(env: Mapping[str, str]) -> None:
    """Create the settings folder so that it can be hidden: an agent that creates it itself could write the settings of
    the next gateway."""
    if env.get("HOME") or env.get("XDG_CONFIG_HOME"):
        with contextlib.suppress(OSError):
            default_file(env).parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def shell_settings(config: Config, env: Mapping[str, str]) -> ShellSettings:
    return ShellSettings(
        program=config.shell or env.get("SHELL", "") or "/bin/bash",
        env=shell_environment(env),
        idle_s=config.terminal_idle_minutes * 60,
        recordings=str(Path(config.data) / "recordings") if config.record_terminals else "",
        providers=providers(config),
    )


def plugin_settings(
    config: Config, env: Mapping[str, str], sandbox: Sandbox | None = None, owner: str = ""
) -> PluginSettings:
    return PluginSettings(
        folder=plugins_folder(config),
        env=plugin_environment(env),
        programs={".py": sys.executable, ".js": "node", ".mjs": "node", ".cjs": "node"},
        message_bytes=config.frame_bytes,
        sandbox=sandbox,
        owner=owner,
    )


def plugins_folder(config: Config) -> Path:
    return Path(config.plugins).expanduser() if config.plugins else Path(config.data) / "plugins"


def providers(config: Config) -> dict[str, Provider]:
    """Return the programs that a client may start on a terminal by name. Raises BadRequest."""
    taken = {"claude": "claude", "plain-shell": "shell"}
    for name in config.provider:
        if name in taken:
            raise BadRequest(f"Setting provider: {name} is set by the setting {taken[name]}.")
    chosen = {
        name: Provider(command=provider.command, resume=provider.resume) for name, provider in config.provider.items()
    }
    return {**PROVIDERS, **chosen}


def invitations_page(protocols: Sequence[ClientProtocol], doors: Sequence[OpenDoor], main: str) -> str:
    """Return the address where an invitation is accepted: on the extra port of a protocol that has a page for it, else
    on the main port."""
    for door in doors:
        if door.protocol.invitations:
            return door.url.rstrip("/") + door.protocol.invitations
    paths = [f"{protocol.prefix}{protocol.invitations}" for protocol in protocols if protocol.invitations]
    return f"{main.rstrip('/')}{paths[0]}" if paths else ""


def folder_identity(folder: Path) -> str:
    """Return the identity of a folder, which a copy does not share: a child belongs to the folder of the gateway that
    started it."""
    found = folder.stat()
    return f"{found.st_dev}:{found.st_ino}"
