"""Settings: one typed list from defaults, a TOML file, the environment and the command line; later sources win.

Rule: every setting is defined here. docs/reference/settings.md is generated from the descriptions; the environment
variable of a setting is `FAIRLEAD_` and its name in capitals.
"""

import contextlib
import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from fairlead.config.tables import AgentConfig, DoorConfig, McpConfig, ProviderConfig
from fairlead.config.variables import ENV_PREFIX, NOT_SETTINGS
from fairlead.model.errors import BadRequest
from fairlead.system.user_folders import absolute, default_data, default_file, home_of


def _about(text: str, **limits: Any) -> msgspec.Meta:
    return msgspec.Meta(description=text, **limits)


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. Relative paths are relative to the folder where the program was started."""

    host: Annotated[str, _about("Address to listen on. All but loopback need TLS or a proxy.")] = "127.0.0.1"
    port: Annotated[int, _about("Port to listen on; 0 chooses a free port.", ge=0, le=65535)] = 7433
    data: Annotated[str, _about("The data folder: the log, the credentials, the lock.")] = ""
    store: Annotated[
        str,
        _about(
            "Where sessions are stored. sqlite: in the data folder; nats://HOST,HOST,HOST/CELL: on NATS servers, for "
            "several gateways that act as one."
        ),
    ] = "sqlite"
    store_creds: Annotated[str, _about("Credentials file for the NATS servers.")] = ""
    node: Annotated[
        str, _about("Name of this gateway among those that share a store. Empty: the name of the machine.")
    ] = ""
    cluster_key: Annotated[
        str, _about("File with the key that all gateways of a shared store have; each one signs its messages with it.")
    ] = ""
    shared: Annotated[
        tuple[str, ...],
        _about(
            "Folders with the same path and content on every gateway that names them: another one takes over the "
            "sessions in them when theirs goes away. The HOME of the agents must be in one too. Empty: none."
        ),
    ] = ()
    agent: Annotated[
        str,
        _about(
            "The agent of new sessions: claude, demo or a name in agents; auto: Claude Code if it is installed, "
            "otherwise the demo."
        ),
    ] = "auto"
    agents: Annotated[
        dict[Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9-]{0,31}$")], AgentConfig],
        _about(
            "Agents that speak the Agent Client Protocol (ACP), by name: their program with its arguments as command, "
            "and env, the names of additional environment variables that they get (a table)."
        ),
    ] = {}
    roots: Annotated[tuple[str, ...], _about("Folders that sessions may work in. Empty: your home folder.")] = ()
    claude: Annotated[str, _about("Path of the Claude Code executable. Empty: found in PATH.")] = ""
    claude_home: Annotated[str, _about("HOME of the agents' processes. Empty: your own.")] = ""
    claude_homes: Annotated[
        tuple[str, ...],
        _about(
            "Folders of Claude Code whose sessions are listed. Empty: .claude in the agents' HOME, CLAUDE_CONFIG_DIR."
        ),
    ] = ()
    archive: Annotated[
        bool, _about("Copy every session into the data folder before Claude Code deletes it after 30 days.")
    ] = False
    archive_bytes: Annotated[
        int, _about("Maximum size of these copies, measured by the files; the oldest are deleted first.", ge=0)
    ] = 5 << 30
    transcript_index_bytes: Annotated[
        int,
        _about(
            "Maximum size of the search index of sessions that were never opened here, newest first; 0: they are not "
            "searched.",
            ge=0,
        ),
    ] = 1 << 30
    pass_env: Annotated[
        tuple[str, ...],
        _about("Names of additional environment variables that agents get. Other variables are hidden from them."),
    ] = ()
    session_env: Annotated[
        tuple[str, ...], _about("Names of environment variables that clients may set for a running agent. Empty: none.")
    ] = ()
    agent_access: Annotated[
        Literal["none", "view", "send"],
        _about(
            "What the agent of a session may do with the other sessions of its user (fairlead mcp): none; view: list, "
            "search and read them; send: also start sessions and send messages."
        ),
    ] = "none"
    max_agents: Annotated[
        int, _about("Maximum number of agent processes; 0: chosen by the memory that is free at the start.", ge=0)
    ] = 0
    max_terminals: Annotated[int, _about("Maximum number of programs on terminals.", ge=1)] = 32
    shell: Annotated[
        str, _about("Program of the terminals that people open. Empty: your SHELL, otherwise /bin/bash.")
    ] = ""
    terminal_idle_minutes: Annotated[
        float,
        _about(
            "Such a terminal ends after this time without input and output; a terminal of claudecodeui, after this "
            "time without a viewer.",
            gt=0,
        ),
    ] = 30.0
    record_terminals: Annotated[
        bool, _about("Record the output of such terminals as asciicast files in the data folder (recordings).")
    ] = False
    provider: Annotated[
        dict[str, ProviderConfig],
        _about(
            "Programs that claudecodeui's terminal may start by name, in addition to claude and plain-shell: their "
            "arguments as command and resume (a table). claudecodeui has the names cursor, codex and opencode."
        ),
    ] = {}
    idle_minutes: Annotated[
        float, _about("An idle agent process ends after this time; the next message resumes it.", gt=0)
    ] = 10.0
    on_restart: Annotated[
        Literal["follow", "kill"],
        _about("What to do with running agents of an earlier gateway: follow them to their end, or end them."),
    ] = "follow"
    keeper: Annotated[
        bool,
        _about("Agents and terminals are held by a separate process and survive a restart of the gateway."),
    ] = True
    on_stop: Annotated[
        Literal["detach", "end"],
        _about(
            "What a gateway that stops does with its agents and terminals: leave them to the keeper for the next "
            "gateway, or end them. Without a keeper they are ended."
        ),
    ] = "detach"
    orphan_minutes: Annotated[
        float, _about("Agents and terminals that no gateway has held for this time are ended.", gt=0)
    ] = 60.0
    sandbox: Annotated[
        Literal["auto", "require", "off"],
        _about(
            "Whether agents, terminals and plugins run in a sandbox (bubblewrap) without the data folder, the "
            "settings and the gateway's processes. auto: if it works; require: otherwise the gateway does not start; "
            "off."
        ),
    ] = "auto"
    on_takeover: Annotated[
        Literal["wait", "continue"],
        _about(
            "What a session that was at work does after another node took it over: wait for a message, or tell its "
            "agent to go on."
        ),
    ] = "wait"
    alone_s: Annotated[
        float, _about("Seconds without the store of a cluster after which connections are closed; 0: never.", ge=0)
    ] = 60.0
    durability: Annotated[
        Literal["process", "power"],
        _about("What an acknowledged event survives: the end of any process, or also a power failure (slower)."),
    ] = "process"
    migrate: Annotated[
        Literal["backup", "refuse"],
        _about("With a data folder of an earlier version: keep a backup in it and migrate, or refuse to start."),
    ] = "backup"
    allow: Annotated[tuple[str, ...], _about("Permission rules that allow, such as Bash(git status:*).")] = ()
    deny: Annotated[tuple[str, ...], _about("Permission rules that deny; they override all other rules.")] = ()
    ask: Annotated[tuple[str, ...], _about("Permission rules that always ask a person.")] = ()
    allow_bypass: Annotated[bool, _about("Whether sessions may use the mode bypassPermissions.")] = False
    shim_policy: Annotated[
        Literal["observe", "full"],
        _about(
            "What the policy does in sessions of the shim (fairlead claude). observe: it denies what a rule or the "
            "fence denies, and the program that runs the shim decides the rest; full: as in other sessions."
        ),
    ] = "observe"
    shim_approvals: Annotated[
        bool,
        _about(
            "Whether people answer permission requests in sessions of the shim even if the program that runs it "
            "cannot. The agent then waits for an answer, where Claude Code alone would deny."
        ),
    ] = False
    shim_wait_ms: Annotated[
        int, _about("How long the shim waits for an answer of the gateway before it runs without it.", ge=1)
    ] = 300
    mcp: Annotated[dict[str, McpConfig], _about("MCP servers that sessions may request by name (a table).")] = {}
    tls_cert: Annotated[str, _about("Certificate file, with tls_key: serve over TLS.")] = ""
    tls_key: Annotated[str, _about("Private key file of tls_cert.")] = ""
    public_url: Annotated[
        str, _about("The address that browsers use if a proxy with TLS is in front of the gateway: https://...")
    ] = ""
    trusted_proxy: Annotated[tuple[str, ...], _about("Addresses of proxies whose X-Forwarded-* headers are used.")] = ()
    insecure_lan: Annotated[
        bool, _about("Listen on a network without TLS, although tokens can then be read on the network.")
    ] = False
    origins: Annotated[tuple[str, ...], _about("Additional origins whose pages may use this gateway.")] = ()
    plugins: Annotated[str, _about("Folder of plugins, one folder each. Empty: plugins in the data folder.")] = ""
    door: Annotated[
        dict[str, DoorConfig],
        _about(
            "Further ports, each for one client protocol by name: port, static, public_url, login, options (a table)."
        ),
    ] = {}
    notify_private: Annotated[
        tuple[str, ...], _about("Addresses and networks that are not public but may receive notifications.")
    ] = ()
    frame_bytes: Annotated[int, _about("Maximum size of a client's message.", ge=1024)] = 8 << 20
    commands_per_second: Annotated[float, _about("Maximum number of commands per second on one socket.", gt=0)] = 50.0
    waiting_sockets: Annotated[
        int, _about("Maximum number of connections that have not yet sent a credential.", ge=1)
    ] = 256
    waiting_per_address: Annotated[int, _about("The same for one address.", ge=1)] = 32
    sockets_per_credential: Annotated[
        int,
        _about(
            "Maximum number of open sockets and requests of one credential; never more than a quarter of the open "
            "files that the process may have.",
            ge=1,
        ),
    ] = 512
    credential_bytes: Annotated[
        int,
        _about(
            "Maximum number of unread bytes of one credential, over all its sockets and requests; above it, those "
            "with the most unread bytes are closed (1013).",
            ge=1 << 20,
        ),
    ] = 128 << 20
    record_bytes: Annotated[
        int, _about("Maximum size of an agent's record in the database; a larger record is stored in a file.", ge=1024)
    ] = 64 << 20
    watcher_bytes: Annotated[
        int, _about("Maximum number of unsent bytes for one client; above it, the client reads from the log.", ge=4096)
    ] = 1 << 20
    audit_text: Annotated[
        bool, _about("Record the text of prompts in the audit log, not only who sent them, when and where.")
    ] = False
    audit_file_bytes: Annotated[
        int, _about("Size of a file of the audit log from which on the next entries go into a new one.", ge=4096)
    ] = 16 << 20
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _about("The lowest level that is logged.")] = (
        "info"
    )
    log_format: Annotated[Literal["text", "json"], _about("The format of log lines.")] = "text"


_PATHS = ("claude_home", "tls_cert", "tls_key", "plugins", "store_creds", "cluster_key")
_HINTS = get_type_hints(Config, include_extras=True)
_DEFAULTS = Config()


class BadSetting(BadRequest, code="bad_setting"):
    """An invalid setting; the message has its name, its source and the problem."""

    def __init__(self, name: str, source: str, problem: str) -> None:
        super().__init__(f"Setting {name} ({source}): {problem}", setting=name, source=source)


class Loaded(msgspec.Struct, frozen=True):
    """The settings and the source of each."""

    config: Config
    sources: dict[str, str]
    file: Path
    """The path of the settings file, which need not exist."""


def load(env: Mapping[str, str], overrides: Mapping[str, Any] | None = None, file: Path | None = None) -> Loaded:
    """Load the settings from all sources. A named file must exist; the default one may be missing."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    named = file or (Path(env["FAIRLEAD_CONFIG"]) if env.get("FAIRLEAD_CONFIG") else None)
    path = named or default_file(env)
    for name, value in _from_file(path, must_exist=named is not None).items():
        values[name], sources[name] = value, f"file {path}"
    for name, value in _from_env(env).items():
        values[name], sources[name] = value, f"environment {ENV_PREFIX}{name.upper()}"
    for name, value in (overrides or {}).items():
        if value is not None:
            values[name], sources[name] = value, "command line"
    config = _convert(values, sources)
    # A gateway leaves the folder where it was started: every path is made absolute here.
    paths = {name: absolute(getattr(config, name)) for name in _PATHS}
    # A name without a folder is looked up in PATH.
    programs = {name: getattr(config, name) for name in ("claude", "shell")}
    paths |= {name: absolute(program) if "/" in program else program for name, program in programs.items()}
    config = msgspec.structs.replace(
        config,
        **paths,
        data=absolute(config.data) or str(default_data(env)),
        roots=tuple(map(absolute, config.roots)) or (home_of(env) or os.getcwd(),),
        claude_homes=tuple(map(absolute, config.claude_homes)),
        shared=tuple(map(absolute, config.shared)),
        door={name: msgspec.structs.replace(door, static=absolute(door.static)) for name, door in config.door.items()},
    )
    return Loaded(config, sources, path.absolute())


def names() -> tuple[str, ...]:
    return Config.__struct_fields__


def describe(name: str) -> str:
    """Return the description of a setting, for the reference and for `config show`."""
    return " ".join(meta.description for meta in get_args(_HINTS[name])[1:] if meta.description)


def type_of(name: str) -> Any:
    """Return the type of a setting, without its description and limits."""
    return get_args(_HINTS[name])[0]


def default_of(name: str) -> Any:
    """Return the value of a setting that no source sets."""
    return getattr(_DEFAULTS, name)


def _from_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found = tomllib.load(file)
    except FileNotFoundError:
        if not must_exist:
            return {}
        raise BadSetting("config", str(path), "the file does not exist.") from None
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
        raise BadSetting(name, source, f"this setting does not exist.{hint}")


def _parse(name: str, text: str) -> Any:
    """Convert a variable's text to the type of its setting; lists are separated by commas."""
    kind = type_of(name)
    if kind is bool:
        return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(text.lower(), text)
    if get_origin(kind) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    # A text that does not fit is rejected later, with a message.
    with contextlib.suppress(ValueError):
        if kind in (int, float):
            return kind(text)
        if get_origin(kind) is dict:
            return tomllib.loads(text)
    return text


def _convert(values: Mapping[str, Any], sources: Mapping[str, str]) -> Config:
    for name, value in values.items():
        try:
            msgspec.convert({name: value}, Config)
        except msgspec.ValidationError as error:
            problem = str(error).split(" - at")[0]
            raise BadSetting(name, sources[name], f"{problem}.") from None
    return msgspec.convert(dict(values), Config)


__all__ = ["ENV_PREFIX", "AgentConfig", "BadSetting", "Config", "DoorConfig", "Loaded", "McpConfig", "ProviderConfig"]
__all__ += ["default_data", "default_file", "default_of", "describe", "load", "names", "type_of"]
