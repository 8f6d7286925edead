"""Data for the composer of the app: models, modes, commands. Unsupported features answer with empty results. Pure."""

from typing import Final

import msgspec

from fairlead.clients.claudecodeui.chat.history import NAME, read_memory
from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER
from fairlead.clients.claudecodeui.rest.responses import SMALL, named_session, ok, refused, route
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import NotFound
from fairlead.model.policy import PermissionMode
from fairlead.model.store import Summary
from fairlead.model.web.requests import Response
from fairlead.model.web.routes import Request, Steps, json_response
from fairlead.sessions.api.session_choices import ReadSessionChoices, SessionChoices

DEFAULT: Final = "default"
MODELS: Final = ((DEFAULT, "Default"), ("sonnet", "Sonnet"), ("opus", "Opus"), ("haiku", "Haiku"))
"""Claude Code's own aliases for the newest model of each family; "default" is the model that it is configured with."""
EFFORTS: Final = ("low", "medium", "high")
OFFERED: Final = (
    PermissionMode.DEFAULT,
    PermissionMode.AUTO,
    PermissionMode.ACCEPT_EDITS,
    PermissionMode.PLAN,
    PermissionMode.BYPASS_PERMISSIONS,
)
"""Modes that the app can show; only those that the gateway's settings allow are offered."""
ONE: Final = "/api/providers/{provider}/sessions/{session}"
ASKED: Final = 20
"""Maximum number of sessions that are searched for their agent's commands."""


class ModelBody(msgspec.Struct, frozen=True):
    model: str = ""


class CommandsBody(msgspec.Struct, frozen=True):
    projectPath: str = ""


class ExecuteBody(msgspec.Struct, frozen=True):
    commandName: str = ""
    args: tuple[str, ...] = ()


class EffortBody(msgspec.Struct, frozen=True):
    effort: str = ""


def _known(request: Request) -> bool:
    return request.params["provider"] == PROVIDER


def _unsupported(request: Request) -> Response:
    return refused(404, "UNSUPPORTED_PROVIDER", f'Provider "{request.params["provider"][:40]}" is not supported.')


def models(request: Request) -> Steps:
    yield from ()
    if not _known(request):
        return _unsupported(request)
    efforts = {"default": DEFAULT, "values": [{"value": effort, "label": effort.title()} for effort in EFFORTS]}
    options = [{"value": value, "label": label, "effort": efforts} for value, label in MODELS]
    return ok({"provider": PROVIDER, "models": {"OPTIONS": options, "DEFAULT": DEFAULT}})


def capabilities(request: Request) -> Steps:
    around: SessionChoices = yield ReadSessionChoices()
    own = {
        "provider": PROVIDER,
        "permissionModes": [mode for mode in OFFERED if mode in around.modes],
        "defaultPermissionMode": PermissionMode.DEFAULT,
        "supportsEffort": True,
        "supportsImages": False,
        "supportsFiles": False,
    }
    return ok({"providers": [own]})


def active_model(request: Request) -> Steps:
    """A session's model. `source` shows whether it was chosen for this session."""
    if not _known(request):
        return _unsupported(request)
    view: q.SessionView = yield q.GetSession(named_session(request))
    chosen, effort = str(view.settings.get("model", "")), str(view.settings.get("effort", ""))
    fields = {"provider": PROVIDER, "model": chosen or DEFAULT, "effort": effort or None}
    return ok({**fields, "source": "session" if chosen else DEFAULT})


def set_model(request: Request) -> Steps:
    if not _known(request):
        return _unsupported(request)
    model = request.json(ModelBody).model.strip()
    if not model:
        return refused(400, "MODEL_REQUIRED", "model is required.")
    yield cmd.SetModel(session=named_session(request), model="" if model == DEFAULT else model)
    return ok({"provider": PROVIDER, "model": model, "source": "session"})


def set_effort(request: Request) -> Steps:
    if not _known(request):
        return _unsupported(request)
    effort = request.json(EffortBody).effort.strip()
    if effort not in (DEFAULT, *EFFORTS):
        return refused(400, "INVALID_EFFORT", f"effort is one of {', '.join((DEFAULT, *EFFORTS))}.")
    session = named_session(request)
    view: q.SessionView = yield q.GetSession(session)
    settings = msgspec.convert({**view.settings, "effort": "" if effort == DEFAULT else effort}, cmd.Settings)
    yield cmd.Configure(session=session, settings=settings)
    return ok({"provider": PROVIDER, "effort": effort})


def commands(request: Request) -> Steps:
    """The commands that the agent reported in the folder's newest session that has any; else in any other folder."""
    wanted = request.json(CommandsBody).projectPath
    found: list[Summary] = yield from q.every_session()
    names: tuple[str, ...] = ()
    for summary in sorted(found, key=lambda one: one.cwd != wanted)[:ASKED]:
        try:
            if (yield q.WaitLoaded(summary.session, wait=False)):
                names = read_memory((yield q.ReadProjection(summary.session, NAME))).commands
        except NotFound:
            continue  # deleted in the meantime
        if names:
            break
    custom = [
        {"name": f"/{name}", "description": "", "namespace": "agent", "path": None, "metadata": {"type": "agent"}}
        for name in sorted(names)
    ]
    return json_response({"builtIn": [], "custom": custom, "count": len(custom)})


def execute(request: Request) -> Steps:
    """Return the command unchanged: it goes to the agent as it was typed."""
    yield from ()
    body = request.json(ExecuteBody)
    content = " ".join((body.commandName, *body.args))
    about = {"metadata": {}, "hasFileIncludes": False, "hasBashCommands": False}
    return json_response({"type": "custom", "command": body.commandName, "content": content, **about})


def auth_status(request: Request) -> Steps:
    """Always authenticated: the agent's login, if it needs one, is a matter of the host that runs the gateway."""
    yield from ()
    own = _known(request)
    fields = {"installed": own, "authenticated": own, "email": None, "method": "gateway" if own else None}
    return ok({"provider": request.params["provider"], **fields, "error": None if own else "This agent is not there."})


def mcp_servers(request: Request) -> Steps:
    """Always empty: MCP servers are configured in the gateway."""
    yield from ()
    return ok({"provider": request.params["provider"], "scope": request.query.get("scope", "user"), "servers": []})


def not_here(request: Request) -> Steps:
    yield from ()
    return refused(403, "NOT_HERE", "This is set where the gateway runs: its owner can change it.")


def voice(request: Request) -> Steps:
    yield from ()
    return json_response({"configured": False})


def git_config(request: Request) -> Steps:
    yield from ()
    return json_response({"success": True, "gitName": None, "gitEmail": None})


def api_keys(request: Request) -> Steps:
    yield from ()
    return json_response({"apiKeys": []})


def credentials(request: Request) -> Steps:
    yield from ()
    return json_response({"credentials": []})


def tasks(request: Request) -> Steps:
    yield from ()
    return json_response({"projectId": request.params["project"], "tasks": []})


def skills(request: Request) -> Steps:
    yield from ()
    return ok({"provider": request.params["provider"], "skills": []}) if _known(request) else _unsupported(request)


def task_master(request: Request) -> Steps:
    """Not installed: Fairlead does not support this program, which the app can help to set up."""
    yield from ()
    return json_response({"success": True, "installation": {"isInstalled": False}, "isReady": False})


def task_server(request: Request) -> Steps:
    yield from ()
    return json_response({"hasMCPServer": False, "isConfigured": False})


def project_tasks(request: Request) -> Steps:
    yield from ()
    return json_response({"projectId": request.params["project"], "taskmaster": None})


def browser(request: Request) -> Steps:
    yield from ()
    return ok({"settings": {"enabled": False}})


ROUTES: Final = (
    route("GET", "/api/providers/{provider}/models", "view", "models", models, "What a session can be set to."),
    route("GET", "/api/providers/capabilities", "view", "capabilities", capabilities, "What the agent can."),
    route("GET", f"{ONE}/active-model", "view", "active_model", active_model, "A session's model and effort."),
    route("POST", f"{ONE}/active-model", "chat", "set_model", set_model, "Another model.", body_limit=SMALL),
    route("POST", f"{ONE}/active-effort", "chat", "set_effort", set_effort, "Another effort.", body_limit=SMALL),
    route("POST", "/api/commands/list", "view", "commands", commands, "Those of the agent.", body_limit=SMALL),
    route("POST", "/api/commands/execute", "view", "commands.execute", execute, "As it was typed.", body_limit=SMALL),
    route("GET", "/api/providers/{provider}/auth/status", "view", "agent.auth", auth_status, "Nothing to sign in to."),
    route("GET", "/api/providers/{provider}/mcp/servers", "view", "mcp", mcp_servers, "None that can be set here."),
    route("POST", "/api/providers/{provider}/mcp/servers", "view", "mcp.add", not_here, "No.", body_limit=SMALL),
    route("POST", "/api/providers/mcp/servers/global", "view", "mcp.all", not_here, "No.", body_limit=SMALL),
    route("POST", "/api/providers/{provider}/skills", "view", "skills.add", not_here, "No."),
    route("POST", "/api/plugins/install", "view", "plugins.install", not_here, "No.", body_limit=SMALL),
    route("GET", "/api/voice/health", "view", "voice", voice, "It is off."),
    route("GET", "/api/user/git-config", "view", "git_config", git_config, "Nothing is set."),
    route("GET", "/api/settings/api-keys", "view", "api_keys", api_keys, "None."),
    route("GET", "/api/settings/credentials", "view", "credentials", credentials, "None."),
    route("GET", "/api/taskmaster/tasks/{project}", "view", "tasks", tasks, "None."),
    route("GET", "/api/providers/{provider}/skills", "view", "skills", skills, "None of our own."),
    route("GET", "/api/taskmaster/installation-status", "view", "task_master", task_master, "It is not there."),
    route("GET", "/api/taskmaster/mcp-status", "view", "task_server", task_server, "It is not there."),
    route("GET", "/api/mcp-utils/taskmaster-server", "view", "task_server.1_36", task_server, "So asks 1.36."),
    route("GET", "/api/projects/{project}/taskmaster", "view", "project_tasks", project_tasks, "None."),
    route("GET", "/api/browser-use/settings", "view", "browser", browser, "It is off."),
)
