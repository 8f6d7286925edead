"""Data for the composer of the app: models, modes, commands. Unsupported features answer with empty results. Pure."""

from typing import Final

import msgspec

from fairlead.clients.claudecodeui.chat.history import NAME, read_memory
from fairlead.clients.claudecodeui.rest.project_fields import PROVIDER
from fairlead.clients.claudecodeui.rest.responses import SMALL, always, body_text, ok, refused
from fairlead.model import commands as cmd
from fairlead.model import queries as q
from fairlead.model.errors import FairleadError, NotFound
from fairlead.model.policy import PermissionMode
from fairlead.model.store import Summary
from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.sessions.api.folders import ReadSessionChoices

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
AGENT: Final = "/api/providers/{provider}"
ONE: Final = f"{AGENT}/sessions/{{session}}"
ASKED: Final = 20
"""Maximum number of sessions that are searched for their agent's commands."""

ROUTES: Final = Routes("claudecodeui.")


class ExecuteBody(msgspec.Struct, frozen=True):
    commandName: str = ""
    args: tuple[str, ...] = ()


class UnsupportedProvider(FairleadError, code="unsupported_provider", status=404):
    pass


def _check_provider(request: Request) -> None:
    if request.params["provider"] != PROVIDER:
        raise UnsupportedProvider(f'Provider "{request.params["provider"][:40]}" is not supported.')


@ROUTES.get(f"{AGENT}/models", "view", "models")
def models(request: Request) -> Response:
    _check_provider(request)
    efforts = {"default": DEFAULT, "values": [{"value": effort, "label": effort.title()} for effort in EFFORTS]}
    options = [{"value": value, "label": label, "effort": efforts} for value, label in MODELS]
    return ok({"provider": PROVIDER, "models": {"OPTIONS": options, "DEFAULT": DEFAULT}})


@ROUTES.get("/api/providers/capabilities", "view", "capabilities")
def capabilities(request: Request) -> Steps:
    choices = yield from do(ReadSessionChoices())
    own = {
        "provider": PROVIDER,
        "permissionModes": [mode for mode in OFFERED if mode in choices.modes],
        "defaultPermissionMode": PermissionMode.DEFAULT,
        "supportsEffort": True,
        "supportsImages": False,
        "supportsFiles": False,
    }
    return ok({"providers": [own]})


@ROUTES.get(f"{ONE}/active-model", "view", "active_model")
def active_model(request: Request) -> Steps:
    """A session's model. `source` shows whether it was chosen for this session."""
    _check_provider(request)
    view = yield from do(q.GetSession(request.session))
    chosen, effort = str(view.settings.get("model", "")), str(view.settings.get("effort", ""))
    fields = {"provider": PROVIDER, "model": chosen or DEFAULT, "effort": effort or None}
    return ok({**fields, "source": "session" if chosen else DEFAULT})


@ROUTES.post(f"{ONE}/active-model", "chat", "set_model", body_limit=SMALL)
def set_model(request: Request) -> Steps:
    _check_provider(request)
    model = body_text(request, "model").strip()
    if not model:
        return refused(400, "MODEL_REQUIRED", "model is required.")
    yield cmd.SetModel(session=request.session, model="" if model == DEFAULT else model)
    return ok({"provider": PROVIDER, "model": model, "source": "session"})


@ROUTES.post(f"{ONE}/active-effort", "chat", "set_effort", body_limit=SMALL)
def set_effort(request: Request) -> Steps:
    _check_provider(request)
    effort = body_text(request, "effort").strip()
    if effort not in (DEFAULT, *EFFORTS):
        return refused(400, "INVALID_EFFORT", f"effort is one of {', '.join((DEFAULT, *EFFORTS))}.")
    session = request.session
    view = yield from do(q.GetSession(session))
    settings = msgspec.convert({**view.settings, "effort": "" if effort == DEFAULT else effort}, cmd.Settings)
    yield cmd.Configure(session=session, settings=settings)
    return ok({"provider": PROVIDER, "effort": effort})


@ROUTES.post("/api/commands/list", "view", "commands", body_limit=SMALL)
def commands(request: Request) -> Steps:
    """The commands that the agent reported in the folder's newest session that has any; else in any other folder."""
    wanted = body_text(request, "projectPath")
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


@ROUTES.post("/api/commands/execute", "view", "commands.execute", body_limit=SMALL)
def execute(request: Request) -> Response:
    """Return the command unchanged: it goes to the agent as it was typed."""
    body = request.json(ExecuteBody)
    content = " ".join((body.commandName, *body.args))
    about = {"metadata": {}, "hasFileIncludes": False, "hasBashCommands": False}
    return json_response({"type": "custom", "command": body.commandName, "content": content, **about})


@ROUTES.get(f"{AGENT}/auth/status", "view", "agent.auth")
def auth_status(request: Request) -> Response:
    """Always authenticated: the agent's login, if it needs one, is a matter of the host that runs the gateway."""
    own = request.params["provider"] == PROVIDER
    fields = {"installed": own, "authenticated": own, "email": None, "method": "gateway" if own else None}
    reason = None if own else "This agent is not available."
    return ok({"provider": request.params["provider"], **fields, "error": reason})


@ROUTES.get(f"{AGENT}/mcp/servers", "view", "mcp")
def mcp_servers(request: Request) -> Response:
    """Always empty: MCP servers are configured in the gateway."""
    return ok({"provider": request.params["provider"], "scope": request.query.get("scope", "user"), "servers": []})


@ROUTES.get(f"{AGENT}/skills", "view", "skills")
def skills(request: Request) -> Response:
    _check_provider(request)
    return ok({"provider": PROVIDER, "skills": []})


ROUTES.get("/api/taskmaster/tasks/{project}", "view", "tasks")(
    lambda request: json_response({"projectId": request.params["project"], "tasks": []})
)
ROUTES.get("/api/projects/{project}/taskmaster", "view", "project_tasks")(
    lambda request: json_response({"projectId": request.params["project"], "taskmaster": None})
)
_NOT_HERE: Final = always(refused(403, "NOT_HERE", "This is set where the gateway runs: its owner can change it."))
ROUTES.post(f"{AGENT}/mcp/servers", "view", "mcp.add", body_limit=SMALL)(_NOT_HERE)
ROUTES.post("/api/providers/mcp/servers/global", "view", "mcp.all", body_limit=SMALL)(_NOT_HERE)
ROUTES.post(f"{AGENT}/skills", "view", "skills.add")(_NOT_HERE)
ROUTES.post("/api/plugins/install", "view", "plugins.install", body_limit=SMALL)(_NOT_HERE)

_TASK_SERVER: Final = {"hasMCPServer": False, "isConfigured": False}
# TaskMaster is a program that the app can help to set up, and that Fairlead does not support.
_ABSENT: Final = {
    "/api/voice/health": ("voice", {"configured": False}),
    "/api/user/git-config": ("git_config", {"success": True, "gitName": None, "gitEmail": None}),
    "/api/settings/api-keys": ("api_keys", {"apiKeys": []}),
    "/api/settings/credentials": ("credentials", {"credentials": []}),
    "/api/taskmaster/installation-status": (
        "task_master",
        {"success": True, "installation": {"isInstalled": False}, "isReady": False},
    ),
    "/api/taskmaster/mcp-status": ("task_server", _TASK_SERVER),
    "/api/mcp-utils/taskmaster-server": ("task_server.1_36", _TASK_SERVER),
    "/api/browser-use/settings": ("browser", {"success": True, "data": {"settings": {"enabled": False}}}),
}
"""The name and the response of each route of a feature that is not supported here."""
for _path, (_name, _fields) in _ABSENT.items():
    ROUTES.get(_path, "view", _name)(always(json_response(_fields)))
