"""What is recorded of each command and service call: one table. Pure.

A new command fails the type check here until its entry is decided, a new service call of ours fails a test. A service
call of another package is recorded by its name. Never recorded: the content of messages (unless the setting
`audit_text` says so), secrets, passwords, codes, and the content of files.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never

import msgspec

from fairlead.audit.api import ReadAudit
from fairlead.auth.api import credentials as auth
from fairlead.auth.api import session_keys as keys
from fairlead.model import commands as cmd
from fairlead.model.content import TextBlock
from fairlead.model.web.broadcast import Broadcast, JoinChannel
from fairlead.model.web.requests import ServiceCall
from fairlead.model.web.routes import SendToStreams
from fairlead.model.web.session_changes import ListenToChanges
from fairlead.model.web.sockets import Pause, RecallState
from fairlead.monitoring.api import ReadHealth, ReadMetrics
from fairlead.notifications.api import cognova, feed, resources, targets
from fairlead.plugins import api as plugins
from fairlead.review import api as review
from fairlead.sessions.api import folders, nodes, operation, preferences, read_state, transcripts, workspace
from fairlead.terminals import api as terminals
from fairlead.transcripts import api as stored
from fairlead.uploads import api as uploads

LONGEST_TEXT: Final = 20_000
"""Characters of a prompt that are recorded with `audit_text`."""
LONGEST_SUBJECT: Final = 500
_SUBJECTS: Final = ("command", "file_path", "path", "notebook_path", "url", "pattern", "query", "description")
"""Fields of a tool's input that say what a permission was about, the most telling first."""


class Fact(msgspec.Struct, frozen=True):
    """What happened. `stops`: it only stops, withdraws or denies something, so it must not fail for want of an
    entry."""

    action: str
    session: str = ""
    data: dict[str, Any] = {}
    stops: bool = False


# --- commands


def of_command(command: cmd.Command, *, text: bool) -> Fact:
    action, data, stops = _of_command(command, text=text)
    return Fact(action, command.session or "", {name: value for name, value in data.items() if value}, stops)


def _of_command(command: cmd.Command, *, text: bool) -> tuple[str, dict[str, Any], bool]:
    match command:
        case cmd.Create(cwd=cwd, agent=agent, settings=settings, resume=resume):
            return "session.create", {"cwd": cwd, "agent": agent, "resume": resume, **_settings(settings)}, False
        case cmd.Send() | cmd.Steer():
            action = "prompt" if isinstance(command, cmd.Send) else "steer"
            text_sent = "\n".join(block.text for block in command.content if isinstance(block, TextBlock))
            shown = {"text": text_sent[:LONGEST_TEXT]} if text else {}
            blocks = len(command.content)
            return action, {"message": command.message, "characters": len(text_sent), "blocks": blocks, **shown}, False
        case cmd.AnswerPermission(request=request, behavior=behavior, remember=remember):
            changed = {"changed_input": command.updated_input is not None, "interrupt": command.interrupt}
            answer = {"request": request, "decision": behavior, "remember": list(remember), **changed}
            return "permission.answer", answer, behavior == "deny"
        case cmd.Interrupt() | cmd.Close():
            return f"session.{_tag(command)}", {}, True
        case cmd.SetMode(mode=mode):
            return "session.mode", {"mode": mode}, False
        case cmd.SetModel(model=model):
            return "session.model", {"model": model}, False
        case cmd.SetThinking(budget=budget):
            return "session.thinking", {"budget": budget}, False
        case cmd.SetRules(allow=allow, deny=deny):
            return "session.rules", {"allow": list(allow), "deny": list(deny)}, False
        case cmd.Configure(settings=settings):
            return "session.settings", _settings(settings), False
        case cmd.Rewind(message=message, dry_run=dry_run):
            return "session.rewind", {"message": message, "dry_run": dry_run}, False
        case cmd.Fork(child=child, at=at):
            return "session.fork", {"child": child, "at": at}, False
        case cmd.MoveMessage(message=message, position=position):
            return "message.move", {"message": message, "position": position}, False
        case cmd.CancelMessage(message=message):
            return "message.cancel", {"message": message}, True
        case cmd.Rename():
            return "session.rename", {}, False
        case cmd.ArchiveSession(archived=archived):
            return "session.archive" if archived else "session.unarchive", {}, False
        case cmd.ShareSession(user=user, everybody=everybody, remove=remove):
            return "session.unshare" if remove else "session.share", {"user": user, "everybody": everybody}, remove
        case cmd.Delete(files=files):
            return "session.delete", {"files": files}, False
        case cmd.Control(subtype=subtype):
            return "agent.control", {"subtype": subtype}, False
        case cmd.DialIn() | cmd.AttachShim():
            return f"agent.{_tag(command)}", {}, False
        case cmd.StartHandover(link=link, when=when):
            return "session.hand_over", {"link": link, "when": when}, False
        case cmd.WithdrawHandover():
            return "session.withdraw_hand_over", {}, True
        case cmd.SetVariables(variables=variables):
            return "agent.variables", {"names": sorted(variables)}, False
        case _:
            assert_never(command)


def _tag(command: cmd.Command) -> str:
    return str(command.__struct_config__.tag)


def _settings(settings: cmd.Settings) -> dict[str, Any]:
    """The settings that differ from the defaults; of a text or a schema only that there is one."""
    changed: dict[str, Any] = msgspec.to_builtins(settings)
    for name in ("append_prompt", "output_schema"):
        if name in changed:
            changed[name] = True
    return changed


def subject_of(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The tool of a permission request, and what it was to act on."""
    found = next((given[name] for name in _SUBJECTS if isinstance(given.get(name), str)), "")
    return {"tool": tool, **({"subject": found[:LONGEST_SUBJECT]} if found else {})}


# --- service calls


def of_call(call: ServiceCall[Any]) -> Fact:
    kind = type(call)
    if kind not in CALLS:
        return Fact(f"call.{kind.__name__}", _session(call))
    action, describe = CALLS[kind]
    data = {name: value for name, value in describe(call).items() if value}
    return Fact(action, _session(call), data, kind in STOPS)


def _session(call: Any) -> str:
    return str(getattr(call, "session", "") or "")


def _fields(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda call: {name: msgspec.to_builtins(getattr(call, name)) for name in names}


def _item(call: Any) -> dict[str, Any]:
    return {"kind": call.kind.__name__, "id": call.id}


CALLS: Final[dict[type[ServiceCall[Any]], tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    auth.CreateToken: ("token.create", _fields("name", "scopes", "user")),
    auth.RevokeCredential: ("credential.revoke", _fields("kind", "id")),
    auth.CreateLoginCode: ("login_link.create", _fields("name", "scopes", "user")),
    auth.Login: ("sign_in", lambda call: {"by": "login link"}),
    auth.AddUser: ("user.create", lambda call: {"name": call.name, "password": bool(call.password)}),
    auth.AcceptInvitation: ("user.create", lambda call: {"name": call.name, "by": "invitation"}),
    auth.SetPassword: ("user.password", _fields("name")),
    auth.RemoveUser: ("user.remove", _fields("name")),
    auth.CreateInvitation: ("invitation.create", _fields("scopes")),
    keys.SetKey: ("session.key", lambda call: {}),
    keys.DropKey: ("session.drop_key", lambda call: {}),
    terminals.JoinTerminal: ("terminal.open", _fields("name")),
    terminals.JoinShell: ("shell.open", _fields("name", "folder", "read_only", "owner")),
    terminals.ShareShell: ("shell.share", _fields("name", "shared")),
    terminals.EndShell: ("shell.end", _fields("name")),
    terminals.OpenLauncher: ("shell.launcher", lambda call: {}),
    cognova.RevealSecret: ("secret.reveal", _fields("key")),
    cognova.RunAgent: ("agent.run", _fields("id")),
    cognova.CancelAgent: ("agent.cancel", _fields("id")),
    resources.AddItem: ("item.create", lambda call: {"kind": type(call.item).__name__}),
    resources.EditItem: ("item.change", lambda call: {**_item(call), "fields": sorted(call.changes)}),
    resources.RemoveItem: ("item.remove", _item),
    resources.RestoreItem: ("item.restore", _item),
    targets.AddTarget: ("target.create", lambda call: {"kind": call.target.kind}),
    targets.TryTarget: ("target.try", _fields("id")),
    folders.TrustFolder: ("folder.trust", _fields("path")),
    folders.UntrustFolder: ("folder.untrust", _fields("path")),
    transcripts.ImportTranscript: ("transcript.import", _fields("path")),
    transcripts.ArchiveTranscripts: ("transcript.archive", _fields("on")),
    stored.DeleteTranscripts: ("transcript.delete", lambda call: {"key": msgspec.to_builtins(call.key)}),
    operation.DrainGateway: ("gateway.drain", _fields("cancel")),
    operation.StopGateway: ("gateway.stop_request", _fields("agents")),
    plugins.EnablePlugin: ("plugin.enable", _fields("name", "digest")),
    plugins.DisablePlugin: ("plugin.disable", _fields("name")),
    review.StageFiles: ("review.stage", lambda call: {"files": len(call.keys), "staged": call.staged}),
    review.CommitStaged: ("review.commit", lambda call: {}),
    review.DiscardFiles: ("review.discard", lambda call: {"files": len(call.keys)}),
    review.RestoreFiles: ("review.restore", lambda call: {"files": len(call.keys)}),
    review.CloseWorktree: ("worktree.close", _fields("how", "force")),
    nodes.AdoptSession: ("session.adopt", lambda call: {}),
}
"""The action and the data of each service call that is recorded."""

STOPS: Final[frozenset[type[ServiceCall[Any]]]] = frozenset(
    {
        *(auth.RevokeCredential, auth.RemoveUser, auth.SetPassword, terminals.EndShell, cognova.CancelAgent),
        *(folders.UntrustFolder, operation.DrainGateway, operation.StopGateway, plugins.DisablePlugin),
    }
)

RESULTS: Final[dict[type[ServiceCall[Any]], Callable[[Any], dict[str, Any]]]] = {
    auth.CreateToken: lambda made: {"credential": made.credential.id},
    auth.Login: lambda made: {"credential": made.credential.id, "user": made.credential.user},
    auth.AcceptInvitation: lambda made: {"credential": f"user:{made.id}", "user": made.name},
}
"""Calls that are recorded when they are done, with what they made: before that it has no id, and nobody knows its
secret until the answer is sent."""

NOT_RECORDED: Final[frozenset[type[ServiceCall[Any]]]] = frozenset(
    {
        # They only read, or keep what a client shows.
        *(ReadAudit, auth.ListCredentials, auth.ListUsers, keys.ReadKey, terminals.ShowTerminal, terminals.ListShells),
        *(resources.ListItems, resources.GetItem, targets.PushKey, feed.ReadFeed, feed.ReadFeedPreferences),
        *(feed.WriteFeedPreferences, feed.JoinFeed, folders.ListTrusted, folders.InspectFolder, folders.ListFolders),
        *(folders.ReadSessionChoices, folders.ListFolder, folders.MarkFolder, preferences.ReadPreferences),
        *(preferences.SavePreferences, read_state.MarkRead, read_state.GetReadState, operation.ReadGatewayState),
        *(workspace.ReadTree, workspace.ReadFile, workspace.ReadGit, plugins.ListPlugins, plugins.ReadPluginFile),
        *(stored.LoadEntries, stored.ListTranscripts, uploads.ReadUpload, ListenToChanges, JoinChannel, Broadcast),
        *(RecallState, Pause, SendToStreams, ReadHealth, ReadMetrics),
        *(review.ListChanges, review.ReadFileDiff, review.ListWorktrees, nodes.ListNodes),
        # The traffic of programs that a person has started, enabled or attached.
        *(stored.AppendEntries, plugins.JoinPlugin, plugins.CallPlugin, transcripts.AnnounceSession),
        # Short-lived forms of a credential that its holder has already.
        *(auth.IssueTicket, auth.SignDownload, auth.RenewToken),
        # Recorded elsewhere: at the check of the password, with the answer, and with the prompt.
        *(auth.SignIn, targets.RedeemAnswerCode, uploads.AcceptForm, uploads.OpenIntake, uploads.ClaimUploads),
    }
)
