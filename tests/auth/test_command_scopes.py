"""The scopes that each command needs, and that each one is checked."""

from typing import get_args

import pytest

from fairlead.model import commands as cmd
from fairlead.model.auth import SCOPES, Identity, Scope
from fairlead.model.errors import NotAllowed
from fairlead.model.ids import MessageId, RequestId, SessionId
from fairlead.model.scopes import check_scopes, scopes_for

S = SessionId("11111111-1111-4111-8111-111111111111")
M = MessageId("m")
LOUD = cmd.Settings(mode="acceptEdits", mcp_servers=("x",))

NEEDS: list[tuple[cmd.Command, set[Scope]]] = [
    (cmd.Create(session=S), {"chat"}),
    (cmd.Create(session=S, settings=cmd.Settings(mode="plan")), {"chat"}),
    (cmd.Create(session=S, settings=cmd.Settings(mode="acceptEdits")), {"chat", "approve"}),
    (cmd.Create(session=S, settings=cmd.Settings(mode="bypassPermissions")), {"chat", "approve"}),
    (cmd.Create(session=S, settings=cmd.Settings(mode="a mode of tomorrow")), {"chat", "approve"}),
    (cmd.Create(session=S, settings=cmd.Settings(mcp_servers=("x",))), {"chat", "admin"}),
    (cmd.Send(session=S, content=()), {"chat"}),
    (cmd.Steer(session=S, content=()), {"chat"}),
    (cmd.Interrupt(session=S), {"chat"}),
    (cmd.AnswerPermission(session=S, request=RequestId("r"), behavior="deny"), {"approve"}),
    (cmd.SetMode(session=S, mode="default"), {"approve"}),
    (cmd.SetRules(session=S, allow=("Bash(ls:*)",)), {"approve"}),
    (cmd.SetModel(session=S, model="m"), {"chat"}),
    (cmd.SetThinking(session=S, budget=1), {"chat"}),
    (cmd.Configure(session=S, settings=LOUD), {"chat", "approve", "admin"}),
    (cmd.Rewind(session=S, message=M), {"chat"}),
    (cmd.Fork(session=S, child=S), {"chat"}),
    (cmd.MoveMessage(session=S, message=M, position=0), {"chat"}),
    (cmd.CancelMessage(session=S, message=M), {"chat"}),
    (cmd.Rename(session=S, title="t"), {"chat"}),
    (cmd.ArchiveSession(session=S), {"chat"}),
    (cmd.ShareSession(session=S, everybody=True), {"chat"}),
    (cmd.Close(session=S), {"chat"}),
    (cmd.Delete(session=S), {"chat"}),
    (cmd.Delete(session=S, files=True), {"admin"}),
    (cmd.Control(session=S, subtype="x"), {"admin"}),
    (cmd.DialIn(session=S), {"admin"}),
    (cmd.AttachShim(session=S, version="2.1.325", agent_session=S), {"admin"}),
    (cmd.SetVariables(session=S, variables={}), {"admin"}),
    (cmd.StartHandover(session=S, link="terminal"), {"chat"}),
    (cmd.WithdrawHandover(session=S), {"chat"}),
]  # fmt: skip


def test_every_command_is_in_the_table() -> None:
    assert {type(command) for command, _ in NEEDS} == set(get_args(cmd.Command))


@pytest.mark.parametrize(("command", "needed"), NEEDS, ids=lambda value: type(value).__name__)
def test_a_command_is_refused_as_soon_as_one_scope_is_missing(command: cmd.Command, needed: set[Scope]) -> None:
    assert set(scopes_for(command)) == needed
    check_scopes(Identity("c", "u", "n", frozenset(needed)), command)
    check_scopes(Identity("c", "u", "n", frozenset({"admin"})), command)
    for missing in needed:
        others = frozenset(scope for scope in SCOPES if scope not in (missing, "admin"))
        with pytest.raises(NotAllowed):
            check_scopes(Identity("c", "u", "n", others), command)
