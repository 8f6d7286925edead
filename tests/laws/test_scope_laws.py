"""Scopes, judged by their effect on a session: a credential changes nothing that needs a scope it does not have."""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.content import TextBlock
from fairlead.model.errors import FairleadError, Stale
from fairlead.model.ids import MessageId, RequestId, SessionId
from laws.two_users import Ids, TwoUserGateway, asked, open_gateway, table
from sessions.harness import CHILD, SESSION, CoreHarness

VIEWER = Identity("v", "owner", "viewer", frozenset({"view"}))
TALKER = Identity("t", "owner", "talker", frozenset({"view", "chat"}))
OTHER = SessionId("99999999-0000-3333-4444-555555555555")
MODES = ("", "default", "plan", "acceptEdits", "dontAsk", "bypassPermissions")

texts = st.just((TextBlock("hello"),))
wanted = st.builds(
    cmd.Settings,
    mode=st.sampled_from(MODES),
    model=st.sampled_from(("", "opus")),
    mcp_servers=st.sampled_from(((), (), (), ("files",), ("other",))),
    link=st.sampled_from(("stdio", "terminal")),
)
here = st.just(SESSION)
COMMANDS: dict[type[Any], st.SearchStrategy[Any]] = {
    cmd.Create: st.builds(cmd.Create, session=st.just(OTHER), settings=wanted),
    cmd.Send: st.builds(cmd.Send, session=here, content=texts),
    cmd.Steer: st.builds(cmd.Steer, session=here, content=texts),
    cmd.Interrupt: st.builds(cmd.Interrupt, session=here),
    cmd.AnswerPermission: st.builds(
        cmd.AnswerPermission,
        session=here,
        request=st.just(RequestId("r1")),
        behavior=st.sampled_from(("allow", "deny")),
    ),
    cmd.SetMode: st.builds(cmd.SetMode, session=here, mode=st.sampled_from(MODES)),
    cmd.SetModel: st.builds(cmd.SetModel, session=here, model=st.just("opus")),
    cmd.SetThinking: st.builds(cmd.SetThinking, session=here, budget=st.just(5)),
    cmd.SetRules: st.builds(cmd.SetRules, session=here, allow=st.just(("Bash(ls:*)",)), deny=st.just(("Read",))),
    cmd.Configure: st.builds(cmd.Configure, session=here, settings=wanted),
    cmd.Rewind: st.builds(cmd.Rewind, session=here, message=st.just(MessageId("m"))),
    cmd.Fork: st.builds(cmd.Fork, session=here, child=st.just(CHILD), at=st.none()),
    cmd.MoveMessage: st.builds(cmd.MoveMessage, session=here, message=st.just(MessageId("m")), position=st.just(0)),
    cmd.CancelMessage: st.builds(cmd.CancelMessage, session=here, message=st.just(MessageId("m"))),
    cmd.Rename: st.builds(cmd.Rename, session=here, title=st.just("new")),
    cmd.ArchiveSession: st.builds(cmd.ArchiveSession, session=here),
    cmd.ShareSession: st.builds(cmd.ShareSession, session=here, everybody=st.just(True)),
    cmd.Close: st.builds(cmd.Close, session=here),
    cmd.Delete: st.builds(cmd.Delete, session=here, files=st.just(True)),
    cmd.Control: st.builds(cmd.Control, session=here, subtype=st.just("x")),
    cmd.DialIn: st.builds(cmd.DialIn, session=here),
    cmd.AttachShim: st.builds(cmd.AttachShim, session=here, version=st.just("2.1.325"), agent_session=here),
    cmd.StartHandover: st.builds(cmd.StartHandover, session=here, link=st.sampled_from(("stdio", "terminal"))),
    cmd.WithdrawHandover: st.builds(cmd.WithdrawHandover, session=here),
    cmd.SetVariables: st.builds(cmd.SetVariables, session=here, variables=st.just({"TEAM": "x"})),
}


def test_every_command_is_covered() -> None:
    assert set(COMMANDS) == set(get_args(cmd.Command))


def approved(harness: CoreHarness, session: SessionId) -> Any:
    """The parts of a session that only a user with more than the chat scope may decide."""
    state = harness.state(session)
    return state.settings.mode, state.settings.mcp_servers, state.rules, state.allow, state.deny


async def history(folder: Path, commands: list[cmd.Command], mode: str, who: Identity, *, busy: bool) -> None:
    harness = CoreHarness(folder)
    await harness.start()
    try:
        harness.services.mcp_configs.update(files={}, other={})  # type: ignore[attr-defined]  # a dict in this harness
        await harness.open(settings=cmd.Settings(mode=mode, mcp_servers=("files",)))
        await harness.do(cmd.SetRules(session=SESSION, allow=("Bash(echo:*)",)))
        await harness.send("one")
        agent = await harness.kind.launched()
        await agent.prompted()
        await agent.ready()
        await agent.call("c1", command="touch x")
        await agent.ask("r1", "c1", command="touch x")
        if not busy:
            # A mode may have settled the request already.
            with contextlib.suppress(Stale):
                await harness.do(
                    cmd.AnswerPermission(
                        session=SESSION, request=RequestId("r1"), behavior="allow", remember=("Bash(touch x)",)
                    )
                )
            await agent.result_of("c1")
            await agent.result()
        before, log = approved(harness, SESSION), await harness.log()
        for command in commands:
            with contextlib.suppress(FairleadError):
                await harness.do(command, who)
        assert approved(harness, SESSION) == before
        added = (await harness.log())[len(log) :]
        assert not [event for event in added if isinstance(event, ev.PermissionResolved) and event.how == "person"]
        if who is VIEWER:
            assert added == []
        for made in (CHILD, OTHER):
            if harness.registry.loaded(made) is not None:
                mode, servers, rules, allow, deny = approved(harness, made)
                assert mode in ("", "default", "plan")
                assert (servers, rules, allow, deny) == ((), (), (), ())
    finally:
        await harness.stop()


likely = (COMMANDS[cmd.Configure], COMMANDS[cmd.Fork], COMMANDS[cmd.Create])
"""Commands that carry settings are drawn more often."""


@settings(max_examples=60, deadline=None)
@given(
    commands=st.lists(st.one_of(*COMMANDS.values(), *likely * 3), min_size=1, max_size=12),
    mode=st.sampled_from(MODES[1:5]),
    who=st.sampled_from((VIEWER, TALKER, TALKER)),
    busy=st.booleans(),
)
@example(commands=[cmd.Configure(session=SESSION, settings=cmd.Settings())], mode="plan", who=TALKER, busy=True)
@example(commands=[cmd.Fork(session=SESSION, child=CHILD)], mode="acceptEdits", who=TALKER, busy=False)
def test_a_credential_changes_nothing_that_needs_another_scope(
    commands: list[cmd.Command], mode: str, who: Identity, busy: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(history(Path(folder), commands, mode, who, busy=busy))


async def walled(gateway: TwoUserGateway) -> Ids:
    """A session of Anna's in a mode that she has approved, and one of hers with a pending request."""
    settings = {"mode": "acceptEdits"}
    session = (await gateway.post("anna", "/v1/sessions", {"settings": settings}))["session"]
    asks = (await gateway.post("anna", "/v1/sessions", {"text": "SCRIPT:bash touch x"}))["session"]
    return Ids(session, await gateway.asking("anna", asks), asks)


async def kept(gateway: TwoUserGateway, ids: Ids) -> bool:
    """Assert that nothing that needs `approve` was changed; false if a session or the request no longer exists."""
    view = await gateway.call("anna", "GET", f"/v1/sessions/{ids.session}")
    other = await gateway.call("anna", "GET", f"/v1/sessions/{ids.item}/events?limit=1000")
    if view.status_code == 404 or other.status_code == 404:
        return False
    assert view.json()["settings"]["mode"] == "acceptEdits"
    assert not view.json().get("rules")
    settled = [event for event in other.json()["events"] if event["type"].startswith("permission.")]
    assert not [event for event in settled if event["type"] == "permission.resolved"], settled
    return not [event for event in settled if event["type"] == "permission.cancelled"]


@pytest.mark.process
async def test_no_route_and_no_socket_changes_what_needs_approval(tmp_path: Path) -> None:
    async with open_gateway(tmp_path) as gateway:
        await gateway.add("anna")
        await gateway.add("talker", ("view", "chat"), "anna")
        ids = await walled(gateway)
        for route in table().routes:
            if route.method != "GET" and route.access in ("view", "chat", "approve", "any"):
                await asked(gateway, "talker", route, ids, {})
                if not await kept(gateway, ids):
                    ids = await walled(gateway)
        for socket in table().sockets:
            async with gateway.listening("talker", socket.path, ids) as listener:
                await listener.all_sent.wait()
            if not await kept(gateway, ids):
                ids = await walled(gateway)
