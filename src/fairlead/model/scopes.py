"""The scopes that a command needs: one table for every protocol and for the core.

A new command fails the type check here until its scopes are decided.
"""

from typing import Final, assert_never

from msgspec import structs

from fairlead.model import commands as c
from fairlead.model.auth import Identity, Scope
from fairlead.model.commands import Command, Settings
from fairlead.model.errors import NotAllowed

_CAUTIOUS: Final = ("", "default", "plan")
"""Modes in which a session may start without the scope approve: they permit no more than the policy."""


def scopes_for(command: Command) -> tuple[Scope, ...]:
    """The scopes of a command; all of them are needed."""
    match command:
        case c.Create(settings=settings) | c.Configure(settings=settings):
            return ("chat", *_settings(settings))
        case c.AnswerPermission() | c.SetMode() | c.SetRules():
            # Leaving plan mode approves the plan, so every change of mode is an approval.
            return ("approve",)
        case c.Delete(files=files):
            return ("admin",) if files else ("chat",)
        case c.Control() | c.DialIn() | c.AttachShim() | c.SetVariables():
            return ("admin",)
        case c.Send() | c.Steer() | c.Interrupt() | c.Rewind() | c.MoveMessage() | c.CancelMessage():
            return ("chat",)
        case c.SetModel() | c.SetThinking() | c.StartHandover() | c.WithdrawHandover():
            return ("chat",)
        case c.Fork() | c.Rename() | c.ArchiveSession() | c.ShareSession() | c.Close():
            return ("chat",)
        case _:
            assert_never(command)


def check_scopes(who: Identity, command: Command) -> None:
    """Raise NotAllowed if the credential lacks a scope that the command needs."""
    for scope in scopes_for(command):
        require_scope(who, scope)


def require_scope(who: Identity, scope: Scope) -> None:
    if not who.may(scope):
        raise NotAllowed(f"This needs the scope {scope}, which your credential does not have.", scope=scope)


def check_difference(who: Identity, before: Settings, after: Settings) -> None:
    """Raise NotAllowed for a change of a session's settings that needs another scope: entering or leaving any mode is
    an approval."""
    if (before.mode or "default") != (after.mode or "default"):
        require_scope(who, "approve")
    if before.mcp_servers != after.mcp_servers:
        require_scope(who, "admin")


def inherited(who: Identity, settings: Settings) -> Settings:
    """The parent's settings for a fork, without those that `who` could not have set."""
    allowed = _settings(settings)
    mode = settings.mode if "approve" not in allowed or who.may("approve") else "default"
    servers = settings.mcp_servers if "admin" not in allowed or who.may("admin") else ()
    return structs.replace(settings, mode=mode, mcp_servers=servers)


def _settings(settings: Settings) -> tuple[Scope, ...]:
    approve: tuple[Scope, ...] = () if settings.mode in _CAUTIOUS else ("approve",)
    # A named server is a program of the configuration to which the agent then connects.
    admin: tuple[Scope, ...] = ("admin",) if settings.mcp_servers else ()
    return (*approve, *admin)
