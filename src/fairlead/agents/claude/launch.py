"""How the CLI is started: its arguments, its environment, its first request. Pure.

Rules: a session's value is never an argument on its own. Each value is validated (a UUID, a number, one of a list, an
absolute path) and joined to its flag with `=`, so that it cannot be parsed as a flag. Free text (the appended prompt,
schemas) goes into `initialize` on stdin. The environment starts empty.

2.1.37, 2.1.120 and 2.1.325 all have the flags used here, except `--effort`, which 2.1.37 lacks.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairlead.agents.claude.versions import Abilities, Version
from fairlead.agents.environment import basic_environment
from fairlead.agents.links.framing import OversizeSpill
from fairlead.model.agents import Launch
from fairlead.model.commands import Settings
from fairlead.model.errors import BadId, BadMode, BadRequest
from fairlead.model.ids import is_uuid

ALWAYS: Final = ("-p", "--input-format=stream-json", "--output-format=stream-json", "--verbose")

OVER_STDIO: Final = (*ALWAYS, "--permission-prompt-tool=stdio")
"""Without the last flag the CLI asks nothing over stdio and rejects calls that need an answer; over a socket the flag
is implied."""

PLACEHOLDER: Final = "placeholder"
"""The prompt of a dial-in launch. The CLI ignores it and waits for a prompt on its socket."""

TOKEN_VARIABLE: Final = "CLAUDE_CODE_SESSION_ACCESS_TOKEN"

EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
_EFFORT_SINCE: Final[Version] = (2, 1, 120)

ASK_BINDS_SINCE: Final[Version] = (2, 1, 120)
"""Since this version a PreToolUse hook's `ask` makes the CLI ask. In older versions the CLI's own allow rules and modes
take precedence."""

BLOCKS_SINCE: Final[Version] = (2, 1, 325)
"""Since this version a hook without an answer blocks its tool. Older versions then apply their own rules. Measured: if
the gateway dies while the hook is open, they run the tool where the project allows it or in bypass mode."""

_EDITING_TOOLS: Final = ("Edit", "MultiEdit", "NotebookEdit", "Write")
ASK_RULE_TOOLS: Final = frozenset(
    {*_EDITING_TOOLS, "Bash", "CronCreate", "EnterWorktree", "SendMessage", "WebFetch", "WebSearch"}
)
"""Tools with side effects. Older versions get an ask rule for each. The rule takes precedence over their allow rules
and modes, so that a call which our hook could not decide is asked over the wire, and denied if no one answers."""

ASK_RULES_IGNORED: Final[tuple[Version, Version]] = ((2, 1, 51), (2, 1, 76))
"""First and last version in which an allow rule takes precedence over an ask rule. Measured with 2.1.63; 2.1.50 and
2.1.77 ask. The versions between were not run and are treated like 2.1.63."""

ALWAYS_ASKED: Final = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""Tools for which every version asks a person, regardless of hooks and rules (measured)."""

_API: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL")
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy")
_CERTIFICATES: Final = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
_SWITCHES: Final = ("DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING", "DISABLE_TELEMETRY")
_OF_CLAUDE: Final = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR")
PASSED_VARIABLES: Final = (*_API, *_OF_CLAUDE, *_SWITCHES, *_PROXIES, *_CERTIFICATES)
"""Variables that configure the CLI, passed on if set. Others are passed only if the setting `pass_env` names them."""

POLICY_HOOK: Final = "fairlead-policy"
"""The only hook that we register: it checks the policy before every tool."""

HOOK_SECONDS: Final = 1_000_000
"""How long the CLI waits for the policy, which may wait for a person. More than 24.8 days would overflow Node's
timers, and the CLI would not wait at all."""

_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\[\]-]{0,199}")
_SERVER: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class PreparedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known before the process starts. `agent_session` is the CLI's id of the conversation; `spill`
    stores records that are too large for the log."""

    launch: Launch
    version: Version
    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    agent_session: str
    transcript: Path
    spill: OversizeSpill | None


class BadAgentSetting(BadRequest, code="bad_setting"):
    """A session setting that cannot be passed to the CLI; `data["setting"]` names it."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"The setting {setting} {problem}.", setting=setting)


def arguments(launch: Launch, version: Version, agent_session: str, sdk_url: str = "") -> list[str]:
    """The CLI's arguments. `agent_session` is the id that a new or forked conversation gets; with `sdk_url` the CLI
    dials in to that address."""
    settings = launch.settings
    flags = [*(_dialing(sdk_url) if sdk_url else OVER_STDIO), f"--permission-mode={_mode(settings.mode, version)}"]
    if settings.partial:
        flags.append("--include-partial-messages")
    flags += [*_conversation(launch, agent_session), *_choices(settings, version)]
    if settings.max_turns is not None:
        _require(settings.max_turns >= 1, "max_turns", "must be at least 1")
        flags.append(f"--max-turns={settings.max_turns}")
    if settings.max_budget_usd is not None:
        flags.append(f"--max-budget-usd={_budget(settings.max_budget_usd)}")
    if not launch.trusted:
        # Measured on all three versions: this ignores the project's hooks, MCP servers, allow rules, variables, agents
        # and skills.
        flags.append("--setting-sources=user")
    if version < BLOCKS_SINCE:
        flags.append(f"--settings={_ask_rules(launch)}")
    return flags


def in_terminal(launch: Launch, version: Version, agent_session: str, hooks: str) -> list[str]:
    """The arguments of the interactive CLI. `hooks` is the JSON with our hooks. We pass no other settings: an ask rule
    would open a dialog on the screen even if a hook has decided."""
    settings = launch.settings
    for name, given in (
        ("max_turns", settings.max_turns),
        ("max_budget_usd", settings.max_budget_usd),
        ("output_schema", settings.output_schema),
        ("mcp_servers", settings.mcp_servers or launch.mcp or None),
    ):
        _require(given is None, name, "is not available in a terminal: set the link to stdio, or omit the setting")
    flags = [f"--permission-mode={_mode(settings.mode, version)}"]
    if launch.resume and resumes_by_command(version):
        problem = "cannot be terminal for a fork with this version of Claude Code: set the link to stdio"
        _require(not launch.fork, "link", problem)
    else:
        flags += _conversation(launch, agent_session)
    flags += _choices(settings, version)
    if settings.append_prompt:
        _require("\0" not in settings.append_prompt, "append_prompt", "must not contain a NUL character")
        flags.append(f"--append-system-prompt={settings.append_prompt}")
    if not launch.trusted:
        flags.append("--setting-sources=user")
    return [*flags, f"--settings={hooks}"]


def _choices(settings: Settings, version: Version) -> list[str]:
    flags: list[str] = []
    if model := settings.model:
        _require(_MODEL.fullmatch(model) is not None, "model", f"is not a valid model name: {model[:80]!r}")
        flags.append(f"--model={model}")
    if (effort := settings.effort) and version >= _EFFORT_SINCE:
        _require(effort in EFFORTS, "effort", f"must be one of {', '.join(EFFORTS)}, not {effort[:40]!r}")
        flags.append(f"--effort={effort}")
    for path in settings.directories:
        valid = path.startswith("/") and not _CONTROL.search(path)
        _require(valid, "directories", f"accepts absolute paths without control characters, not {path[:200]!r}")
        flags.append(f"--add-dir={path}")
    return flags


def resumes_by_command(version: Version) -> bool:
    """Measured: the interactive 2.1.120 fails at once when started with `--resume`; its command /resume works."""
    return version == (2, 1, 120)


def terminal_environment(env: Mapping[str, str], launch: Launch, version: Version) -> dict[str, str]:
    """The environment of the interactive CLI: it also needs a terminal type that it can draw on, and prompt suggestions
    switched off, so that its input box contains only typed text."""
    settings = launch.settings
    chosen = {**env, "TERM": "xterm-256color", "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"}
    if not any("utf" in chosen.get(name, "").lower() for name in ("LC_ALL", "LC_CTYPE", "LANG")):
        chosen["LC_ALL"] = "C.UTF-8"
    if settings.thinking is not None:
        chosen["MAX_THINKING_TOKENS"] = str(settings.thinking)
    if launch.resume and resumes_by_command(version):
        # Measured: its command finds conversations that began over stdio only if the CLI has this entry point itself.
        chosen["CLAUDE_CODE_ENTRYPOINT"] = "sdk-cli"
    return chosen


def _dialing(url: str) -> tuple[str, ...]:
    # Positional arguments before options: some options consume every argument that follows them.
    return (ALWAYS[0], PLACEHOLDER, "--print", f"--sdk-url={check_sdk_url(url)}", *ALWAYS[1:])


def check_sdk_url(url: str) -> str:
    """Reject a URL that is not a WebSocket's, with the CLI's own error text: the CLI opens only WebSockets."""
    scheme = url.partition(":")[0].lower()
    if scheme not in ("ws", "wss"):
        raise BadRequest(f"Unsupported protocol: {scheme}:", url=url)
    return url


def must_hold(tool: str, version: Version) -> bool:
    """Whether the hook must wait until the person decides: none of our rules makes this version ask for this tool."""
    if version >= ASK_BINDS_SINCE or tool in ALWAYS_ASKED:
        return False
    first, last = ASK_RULES_IGNORED
    return first <= version <= last or tool not in ASK_RULE_TOOLS


def _ask_rules(launch: Launch) -> str:
    servers = dict.fromkeys((*launch.mcp, *launch.settings.mcp_servers))
    for name in servers:
        valid = _SERVER.fullmatch(name) is not None
        _require(valid, "mcp_servers", f"accepts names of letters, digits, dots and dashes, not {name[:80]!r}")
    # 2.1.120 supports the star; 2.1.37 ignores it.
    rules = [*sorted(ASK_RULE_TOOLS), "mcp__*", *(f"mcp__{name}" for name in servers)]
    # Measured: in 2.1.37 a project's `disableAllHooks` disables our policy hook too, unless these settings override it.
    return msgspec.json.encode({"disableAllHooks": False, "permissions": {"ask": rules}}).decode()


def _conversation(launch: Launch, agent_session: str) -> list[str]:
    if not launch.resume:
        return [f"--session-id={_uuid('session', agent_session)}"]
    flags = [f"--resume={_uuid('session', launch.resume)}"]
    if launch.fork:
        flags += ["--fork-session", f"--session-id={_uuid('session', agent_session)}"]
    if launch.resume_at:
        flags.append(f"--resume-session-at={_uuid('message', launch.resume_at)}")
    return flags


def environment(host: Mapping[str, str], *, home: str = "", passed: tuple[str, ...] = ()) -> dict[str, str]:
    """The child's complete environment. With `home` the CLI keeps its files there, whatever the host has configured."""
    chosen = basic_environment(host, (*PASSED_VARIABLES, *passed))
    if home:
        chosen["HOME"] = home
        chosen.pop("CLAUDE_CONFIG_DIR", None)
    # Makes the CLI keep copies of the files it edits, so that a rewind can restore them.
    chosen["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "1"
    return chosen


def initialize(launch: Launch) -> dict[str, Any]:
    """The fields of the `initialize` request, sent once before the first prompt."""
    settings = launch.settings
    # Newer versions then block the tool if we fail to answer; older ones ignore the field and apply their own rules.
    hook = {"hookCallbackIds": [POLICY_HOOK], "timeout": HOOK_SECONDS, "onFailure": "block"}
    fields = {
        "hooks": {"PreToolUse": [hook]},
        "sdkMcpServers": list(dict.fromkeys(launch.mcp)) or None,
        "jsonSchema": settings.output_schema,
        "appendSystemPrompt": settings.append_prompt or None,
        # Without it the CLI does not send a subagent's text. Versions that do not know it (up to 2.1.118) ignore it.
        "forwardSubagentText": True,
    }
    return {name: value for name, value in fields.items() if value is not None}


def needs_restart(old: Settings, new: Settings, version: Version) -> bool:
    """Whether changing from `old` to `new` needs a new process: model, mode and thinking budget change by request."""
    kept = msgspec.structs.replace(old, model=new.model, mode=new.mode, thinking=new.thinking)
    if kept != new:
        return True
    # Only a process that was launched in bypass mode can enter it.
    return new.mode == "bypassPermissions" != old.mode and Abilities(version).reports_modes


# --- values ----------------------------------------------------------------------------------------


def _uuid(what: str, text: str) -> str:
    if not is_uuid(text):
        raise BadId(what, text[:80])
    return text


def _mode(mode: str, version: Version) -> str:
    known = Abilities(version).modes
    if mode not in known:
        raise BadMode(mode, known)
    return mode


def _require(valid: bool, setting: str, problem: str) -> None:
    if not valid:
        raise BadAgentSetting(setting, problem)


def _budget(dollars: float) -> str:
    _require(math.isfinite(dollars) and dollars >= 1e-6, "max_budget_usd", "must be a number of dollars above 0")
    return f"{dollars:.6f}".rstrip("0").rstrip(".")
