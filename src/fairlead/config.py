"""Settings: one typed list from defaults, a TOML file, the environment and the command line; later sources win.

Rule: every setting is defined here. docs/reference/settings.md is generated from the descriptions; the environment
variable of a setting is `FAIRLEAD_` and its name in capitals.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from fairlead.model.errors import BadRequest

ENV_PREFIX = "FAIRLEAD_"
# Variables that other parts of the program read: the first admin token, the address and name of a client.
NOT_SETTINGS = frozenset({"FAIRLEAD_TOKEN", "FAIRLEAD_URL", "FAIRLEAD_CONFIG", "FAIRLEAD_CACHE", "FAIRLEAD_NO_SKIP"})


def _described(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class McpConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An MCP server that sessions may request by name; only this setting determines what it runs."""

    type: Literal["stdio", "sse", "http"] = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""


class DoorConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An extra port, on which one client protocol owns the root path."""

    port: Annotated[int, msgspec.Meta(ge=0, le=65535)]
    static: str = ""
    public_url: str = ""
    login: Literal["", "basic", "token"] = ""
    options: dict[str, str] = {}


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A program that claudecodeui may start on a terminal by name; `{session}` in `resume` is the conversation."""

    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    resume: tuple[str, ...] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. Relative paths are relative to the folder where the program was started."""

    host: Annotated[str, _described("Address to listen on. Anything but loopback needs TLS or a proxy.")] = "127.0.0.1"
    port: Annotated[int, _described("Port to listen on; 0 takes a free one."), msgspec.Meta(ge=0, le=65535)] = 7433
    data: Annotated[str, _described("The data folder: the log, the credentials, the lock.")] = ""
    agent: Annotated[
        Literal["auto", "claude", "demo"],
        _described("Which agent runs sessions; auto takes Claude Code if it is installed, else the demo."),
    ] = "auto"
    roots: Annotated[tuple[str, ...], _described("Folders that sessions may work in. Empty: your home folder.")] = ()
    claude: Annotated[str, _described("Path of the Claude Code executable. Empty: looked up in PATH.")] = ""
    claude_home: Annotated[str, _described("HOME of the agents' processes. Empty: your own.")] = ""
    claude_homes: Annotated[
        tuple[str, ...],
        _described(
            "Folders of Claude Code whose sessions are listed. Empty: .claude in the agents' HOME, CLAUDE_CONFIG_DIR."
        ),
    ] = ()
    archive: Annotated[
        bool,
        _described("Copy every session into the data folder before Claude Code deletes it after 30 days."),
    ] = False
    archive_bytes: Annotated[
        int,
        _described("The most that such copies may take, by the size of the files; the oldest are let go first."),
        msgspec.Meta(ge=0),
    ] = 5 << 30
    pass_env: Annotated[
        tuple[str, ...],
        _described("Further environment variables that agents get, by name. All others are kept from them."),
    ] = ()
    session_env: Annotated[
        tuple[str, ...],
        _described("Environment variables that may be set for a running agent, by name. Empty: none."),
    ] = ()
    max_agents: Annotated[
        int, _described("Agent processes at once; 0: by the memory that is free at the start."), msgspec.Meta(ge=0)
    ] = 0
    max_terminals: Annotated[int, _described("Programs on terminals at once."), msgspec.Meta(ge=1)] = 32
    shell: Annotated[
        str, _described("Program of the terminals that people open. Empty: your SHELL, else /bin/bash.")
    ] = ""
    terminal_idle_minutes: Annotated[
        float,
        _described(
            "Such a terminal is ended when nothing was typed or printed there for so long; claudecodeui's, when nobody "
            "watched it for so long."
        ),
        msgspec.Meta(gt=0),
    ] = 30.0
    record_terminals: Annotated[
        bool, _described("Record what such terminals print, as asciicast files in the data folder (recordings).")
    ] = False
    provider: Annotated[
        dict[str, ProviderConfig],
        _described(
            "Programs that claudecodeui's terminal may be asked for by name, beside claude and plain-shell: their "
            "arguments as command and resume (a table). There are cursor, codex and opencode."
        ),
    ] = {}
    idle_minutes: Annotated[
        float,
        _described("An idle agent process is ended after so long; the next message resumes it."),
        msgspec.Meta(gt=0),
    ] = 10.0
    on_restart: Annotated[
        Literal["follow", "kill"],
        _described("What to do with agents that outlived an earlier gateway: follow them to their end, or end them."),
    ] = "follow"
    sandbox: Annotated[
        Literal["auto", "require", "off"],
        _described(
            "Whether agents, terminals and plugins run where the data folder, the settings and the gateway's processes "
            "do not exist (bubblewrap): auto, where that works; require, or do not start; off."
        ),
    ] = "auto"
    durability: Annotated[
        Literal["process", "power"],
        _described("What an acknowledged event survives: the death of any process, or a power cut as well (slower)."),
    ] = "process"
    allow: Annotated[tuple[str, ...], _described("Permission rules that allow, such as Bash(git status:*).")] = ()
    deny: Annotated[tuple[str, ...], _described("Permission rules that deny; they win over all others.")] = ()
    ask: Annotated[tuple[str, ...], _described("Permission rules that always ask a person.")] = ()
    allow_bypass: Annotated[bool, _described("Whether sessions may be put into the mode bypassPermissions.")] = False
    mcp: Annotated[dict[str, McpConfig], _described("MCP servers that sessions may ask for by name (a table).")] = {}
    tls_cert: Annotated[str, _described("Certificate file, with tls_key: serve over TLS.")] = ""
    tls_key: Annotated[str, _described("Private key file of tls_cert.")] = ""
    public_url: Annotated[
        str, _described("The address that browsers use, where a proxy with TLS stands in front: https://...")
    ] = ""
    trusted_proxy: Annotated[
        tuple[str, ...], _described("Addresses of proxies whose X-Forwarded-* headers are believed.")
    ] = ()
    insecure_lan: Annotated[
        bool, _described("Listen on a network without TLS, knowing that tokens can be read on the way.")
    ] = False
    origins: Annotated[tuple[str, ...], _described("Further origins whose pages may use this gateway.")] = ()
    plugins: Annotated[str, _described("Folder of plugins, one folder each. Empty: plugins in the data folder.")] = ""
    door: Annotated[
        dict[str, DoorConfig],
        _described(
            "Further ports, each for one client protocol by name: port, static, public_url, login, options (a table)."
        ),
    ] = {}
    notify_private: Annotated[
        tuple[str, ...],
        _described("Addresses and networks that outgoing notices may reach although they are not public."),
    ] = ()
    frame_bytes: Annotated[int, _described("Largest message a client may send."), msgspec.Meta(ge=1024)] = 8 << 20
    commands_per_second: Annotated[
        float, _described("How many commands one socket may give in a second."), msgspec.Meta(gt=0)
    ] = 50.0
    waiting_sockets: Annotated[
        int,
        _described(
            "Connections that may wait before they have shown a credential, whatever they say or read meanwhile."
        ),
        msgspec.Meta(ge=1),
    ] = 256
    waiting_per_address: Annotated[int, _described("The same, from one address."), msgspec.Meta(ge=1)] = 32
    sockets_per_credential: Annotated[
        int,
        _described(
            "Sockets and requests that one credential may have open at once; never more than a quarter of the open "
            "files that the process may have."
        ),
        msgspec.Meta(ge=1),
    ] = 512
    credential_bytes: Annotated[
        int,
        _described(
            "What may wait to be read for one credential, over all its sockets and requests; beyond it those for which "
            "most waits are closed (1013)."
        ),
        msgspec.Meta(ge=1 << 20),
    ] = 128 << 20
    record_bytes: Annotated[
        int,
        _described("Largest record of an agent kept in the database; larger ones go to a file."),
        msgspec.Meta(ge=1024),
    ] = 64 << 20
    watcher_bytes: Annotated[
        int, _described("What may wait to be sent to one client before it reads from the log."), msgspec.Meta(ge=4096)
    ] = 1 << 20
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _described("How much is logged.")] = "info"
    log_format: Annotated[Literal["text", "json"], _described("How log lines look.")] = "text"


class BadSetting(BadRequest):
    """An invalid setting; the message has its name, its source and the problem."""

    code = "bad_setting"

    def __init__(self, name: str, source: str, problem: str) -> None:
        super().__init__(f"Setting {name} ({source}): {problem}", setting=name, source=source)


class Loaded(msgspec.Struct, frozen=True):
    """The settings and the source of each."""

    config: Config
    sources: dict[str, str]
    file: Path
    """The path of the settings file, which need not exist."""


def default_data(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_DATA_HOME") or f"{env.get('HOME', '~')}/.local/share"
    return Path(base).expanduser() / "fairlead"


def default_file(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_CONFIG_HOME") or f"{env.get('HOME', '~')}/.config"
    return Path(base).expanduser() / "fairlead" / "config.toml"


def load(env: Mapping[str, str], overrides: Mapping[str, Any] | None = None, file: Path | None = None) -> Loaded:
    """Load the settings from all sources. A named file must exist; the default one may be missing."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    named = file or (Path(env["FAIRLEAD_CONFIG"]) if env.get("FAIRLEAD_CONFIG") else None)
    for name, value in _from_file(named, default_file(env)).items():
        values[name], sources[name] = value, f"file {named or default_file(env)}"
    for name, value in _from_env(env).items():
        values[name], sources[name] = value, f"environment {ENV_PREFIX}{name.upper()}"
    for name, value in (overrides or {}).items():
        if value is not None:
            values[name], sources[name] = value, "command line"
    config = _convert(values, sources)
    # A gateway leaves the folder where it was started: every path is made absolute here.
    doors = {name: msgspec.structs.replace(door, static=_absolute(door.static)) for name, door in config.door.items()}
    config = msgspec.structs.replace(
        config,
        data=_absolute(config.data) or str(default_data(env)),
        roots=tuple(_absolute(root) for root in config.roots) or (env.get("HOME", os.getcwd()),),
        claude=_absolute(config.claude) if "/" in config.claude else config.claude,
        claude_home=_absolute(config.claude_home),
        claude_homes=tuple(_absolute(home) for home in config.claude_homes),
        shell=_absolute(config.shell) if "/" in config.shell else config.shell,
        tls_cert=_absolute(config.tls_cert),
        tls_key=_absolute(config.tls_key),
        plugins=_absolute(config.plugins),
        door=doors,
    )
    return Loaded(config, sources, (named or default_file(env)).absolute())


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""


def names() -> tuple[str, ...]:
    return Config.__struct_fields__


def describe(name: str) -> str:
    """Return the description of a setting, for the reference and for `config show`."""
    hint = get_type_hints(Config, include_extras=True)[name]
    return " ".join(meta.description for meta in get_args(hint)[1:] if meta.description)


def _from_file(named: Path | None, default: Path) -> dict[str, Any]:
    path = named or default
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except FileNotFoundError:
        if named is None:
            return {}
        raise BadSetting("config", str(path), "there is no such file.") from None
    except tomllib.TOMLDecodeError as error:
        raise BadSetting("config", str(path), f"not TOML: {error}.") from None
    except OSError as error:
        raise BadSetting("config", str(path), f"cannot be read: {error.strerror}.") from None
    for name in found:
        _known(name, f"file {path}")
    return found


def _from_env(env: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, text in env.items():
        if not variable.startswith(ENV_PREFIX) or variable in NOT_SETTINGS:
            continue
        name = variable.removeprefix(ENV_PREFIX).lower()
        _known(name, f"environment {variable}")
        found[name] = _parse(name, text)
    return found


def _known(name: str, source: str) -> None:
    if name not in names():
        close = difflib.get_close_matches(name, names(), n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise BadSetting(name, source, f"there is no such setting.{hint}")


def _parse(name: str, text: str) -> Any:
    """Convert a variable's text to the type of its setting; lists are separated by commas."""
    hint = get_args(get_type_hints(Config, include_extras=True)[name])[0]
    if hint is bool:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.lower(), text)
    if get_origin(hint) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            return text
    if get_origin(hint) is dict:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return text
    return text


def _convert(values: Mapping[str, Any], sources: Mapping[str, str]) -> Config:
    for name, value in values.items():
        try:
            msgspec.convert({name: value}, Config)
        except msgspec.ValidationError as error:
            problem = str(error).split(" - at")[0]
            raise BadSetting(name, sources[name], f"{problem}.") from None
    return msgspec.convert(dict(values), Config)
