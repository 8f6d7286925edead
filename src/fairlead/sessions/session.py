"""One session with all its parts, and the effect of each command on it.

Rule: a command is decided under the lock from the current state, is in the log when its reply is sent, and only then
reaches the agent. The gateway checks the permission to send it, not this file.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, assert_never

import msgspec

from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.agents import Capability, LentProcess
from fairlead.model.auth import Identity
from fairlead.model.content import ImageBlock, MessageSource
from fairlead.model.errors import AgentRefused, BadRequest, Busy, FairleadError, NotAllowed, TooMany
from fairlead.model.ids import MessageId, event_id
from fairlead.model.policy import Behavior
from fairlead.model.scopes import check_difference
from fairlead.sessions import decide
from fairlead.sessions.commit import RequestedMode, SessionCore, idempotency_keys, interrupt_key
from fairlead.sessions.fanout.session_changes import changes_of
from fairlead.sessions.permissions.policy.modes import ModePolicy
from fairlead.sessions.permissions.requests import PermissionRequests
from fairlead.sessions.process.delivery import DeliveryWaiters, TurnWaiters
from fairlead.sessions.process.drain import DRAINING
from fairlead.sessions.process.handover import Handovers
from fairlead.sessions.process.supervisor import AgentSupervisor

logger = logging.getLogger("fairlead.session")

NEEDS: Final[dict[type[cmd.Command], tuple[Capability, str]]] = {
    cmd.Rewind: ("rewind", "restore files"),
    cmd.Fork: ("fork", "continue in a copy of its conversation"),
    cmd.Steer: ("steer", "accept messages in a running turn: wait for its end, or interrupt it"),
    cmd.SetThinking: ("thinking", "take a thinking budget"),
    cmd.SetVariables: ("variables", "accept environment variables while it runs"),
}
"""The capability that a command needs, and how it is named in an error."""


MOST_STARTED: Final = 20
"""Maximum number of sessions that a session's agent starts, counted while the session is in memory."""

IMAGES: Final[tuple[Capability, str]] = ("images", "see pictures: send text, or the path of a file")
TERMINAL: Final[tuple[Capability, str]] = ("terminal", "run in a terminal")


def _needed(command: cmd.Command) -> tuple[Capability, str] | None:
    match command:
        case cmd.Send() | cmd.Steer() if any(isinstance(block, ImageBlock) for block in command.content):
            return IMAGES
        case cmd.StartHandover(link="terminal"):
            return TERMINAL
        case _:
            return NEEDS.get(type(command))


class Session:
    def __init__(self, core: SessionCore) -> None:
        self.core = core
        self.kind = core.services.kind(core.state.agent)
        self.asking = PermissionRequests(core)
        core.suggest = self.asking.suggest
        self.supervisor = AgentSupervisor(self.kind, self.asking)
        self.handovers = self.supervisor.pending_task = Handovers(core, self.supervisor)
        self.deliveries = DeliveryWaiters(core)
        self.turn_waiters = TurnWaiters(core)
        self._started = 0
        core.on_commit = self._on_commit
        for item in core.state.pending:
            core.services.requests.add(core.session, item.request)

    def _on_commit(self, events: Sequence[ev.Event]) -> None:
        self.core.services.requests.on_commit(self.core.session, events)
        self.deliveries.committed(events)
        self.turn_waiters.committed()
        self.core.services.committed(self.core.session, events)
        for what in changes_of(events):
            self.core.services.on_change(self.core.session, what)
        kinds = {type(event) for event in events}
        turn_ended = ev.TurnEnded in kinds
        if ev.AgentExited in kinds:
            self.core.services.agent_ended(self.core.session)
        elif turn_ended:
            self.core.services.turn_ended(self.core.session)
        if turn_ended:
            self.mark_read(self.core.log.feed.live_identities)
        self.handovers.noticed()
        if self.core.state.handover is not None or turn_ended or ev.MessageQueued in kinds:
            asyncio.get_running_loop().call_soon(self.supervisor.schedule_next)

    def count_started(self) -> None:
        """Count a session that this session's agent starts. Raises TooMany."""
        if self._started >= MOST_STARTED:
            raise TooMany(
                f"This session has started {MOST_STARTED} sessions: continue one of them, or ask a person.",
                limit=MOST_STARTED,
            )
        self._started += 1

    def mark_read(self, who: Collection[Identity]) -> None:
        """Mark all finished turns as read for these identities."""
        self.core.services.on_read(self.core.session, who, self.core.state.finished_turns)

    async def command(self, who: Identity, command: cmd.Command, source: MessageSource | None = None) -> cmd.Reply:
        """Execute the command once: a repeated key gets the stored reply. `source`: the agent that sent it, if any."""
        return await self._stored_reply(command) or await self._do(who, command, source)

    async def _stored_reply(self, command: cmd.Command) -> cmd.Reply | None:
        for key in idempotency_keys(command):
            kept = await self.core.log.store.find(self.core.session, key)
            if kept is not None:
                return msgspec.structs.replace(msgspec.json.decode(kept, type=cmd.Reply), repeated=True)
        return None

    async def _do(self, who: Identity, command: cmd.Command, source: MessageSource | None) -> cmd.Reply:
        by = who.name
        self.require_capability(command)
        match command:
            case cmd.Send():
                return await self._send(command, by, source)
            case cmd.Steer():
                return await self._steer(command, by)
            case cmd.Interrupt():
                return await self._interrupt(command, by)
            case cmd.AnswerPermission():
                # An agent of an earlier gateway is about to be adopted: it gets the answer then.
                await self.supervisor.recovered.wait()
                return await self.asking.answer(command, by, self.supervisor.agent, admin=who.may("admin"))
            case cmd.SetMode():
                return await self._set_mode(command, by)
            case cmd.SetModel():
                return await self._set_model(command, by)
            case cmd.SetThinking():
                return await self._set_thinking(command, by)
            case cmd.SetRules():
                return await self._set_rules(command, by, admin=who.may("admin"))
            case cmd.Configure():
                return await self._configure(command, who)
            case cmd.Rewind():
                return await self._rewind(command, by)
            case cmd.MoveMessage():
                return await self._log(command, lambda cause: decide.move(self.core.state, command, by, cause))
            case cmd.CancelMessage():
                return await self._log(command, lambda cause: decide.cancel(self.core.state, command, by, cause))
            case cmd.Rename():
                return await self._log(command, lambda cause: _changed(cause, by, title=_title(command.title)))
            case cmd.ArchiveSession():
                return await self._log(command, lambda cause: _changed(cause, by, archived=command.archived))
            case cmd.Close():
                return await self._close(command, by)
            case cmd.Control():
                return await self._control(command)
            case cmd.DialIn():
                # The token is only in this reply, so a repeat cannot be answered from the log.
                return self._reply(msgspec.structs.asdict(await self.supervisor.invite()))
            case cmd.AttachShim():
                return self._reply(msgspec.structs.asdict(await self.supervisor.attach(_lent(command, by))))
            case cmd.StartHandover():
                return await self.handovers.ask(command, by)
            case cmd.WithdrawHandover():
                return await self.handovers.withdraw(command, by)
            case cmd.SetVariables():
                return await self._set_variables(command)
            case cmd.Create() | cmd.Fork() | cmd.Delete() | cmd.ShareSession():
                raise BadRequest(f"{type(command).__name__} is not a command within a session.")
            case _:
                assert_never(command)

    def require_capability(self, command: cmd.Command) -> None:
        """Raise AgentRefused if the agent lacks what this command needs."""
        needed = _needed(command)
        if needed is not None and needed[0] not in self.kind.capabilities:
            raise AgentRefused(f"The agent {self.kind.name} cannot {needed[1]}.", capability=needed[0])

    async def change(self, command: cmd.Command, decided: Callable[[str], ev.Event | None]) -> cmd.Reply:
        """Log an event that another component decides about this session; a repeated key gets the stored reply."""
        return await self._stored_reply(command) or await self._log(command, decided)

    async def stop_all(self, reason: str) -> None:
        """Cancel all queued messages and a waiting hand-over, and stop the agent."""
        core = self.core
        async with core.client_transaction() as transition:
            for item in core.state.queue:
                command = cmd.CancelMessage(session=core.session, message=item.message)
                transition.add(decide.cancel(core.state, command, "", core.services.new_uuid()))
        await self.handovers.drop("", reason)
        await self.supervisor.stop(reason)

    async def _log(self, command: cmd.Command, decided: Callable[[str], ev.Event | None]) -> cmd.Reply:
        """Execute a command that consists of one event, or of none if nothing changes."""
        core = self.core
        async with core.client_transaction() as transition:
            event = decided(core.services.new_uuid())
            if event is None:
                return self._reply()
            reply = cmd.Reply(session=core.session, seq=transition.add(event).seq)
            transition.save_replies(command, reply)
        return reply

    def _reply(self, data: Any = None) -> cmd.Reply:
        return cmd.Reply(session=self.core.session, seq=self.core.log.head, data=data)

    # --- messages -------------------------------------------------------------------------------------

    async def _send(self, command: cmd.Send, by: str, source: MessageSource | None) -> cmd.Reply:
        core = self.core
        message = command.message or MessageId(core.services.new_uuid())
        draining = core.services.drain.on
        if draining and not command.wait:
            raise Busy("The gateway is draining and starts no turns: send the message when it is back.")
        async with core.client_transaction() as transition:
            entry = transition.add(decide.send(core.state, command, by, message, source))
            if draining:
                notice = event_id(message, "notice", "draining")
                transition.add(ev.Notice(id=notice, kind="draining", text=DRAINING, turn=core.state.turn))
            data = {"draining": True} if draining else None
            reply = cmd.Reply(session=core.session, seq=entry.seq, message=message, data=data)
            transition.save_replies(command, reply)
        return reply

    async def _steer(self, command: cmd.Steer, by: str) -> cmd.Reply:
        decide.steer(self.core.state, command)
        message = command.message or MessageId(self.core.services.new_uuid())
        seq = await self.supervisor.steer(command.content, message, by)
        reply = cmd.Reply(session=self.core.session, seq=seq, message=message)
        if idempotency_keys(command):
            async with self.core.client_transaction() as transition:
                transition.save_replies(command, reply)
        return reply

    async def _interrupt(self, command: cmd.Interrupt, by: str) -> cmd.Reply:
        core = self.core
        decide.check_reference(command.reference)
        async with core.client_transaction(patient=True) as transition:
            if core.interpreter.turn is None and not core.interpreter.background_work:
                return self._reply({"idle": True})
            entry = transition.interrupt(by, command.reference)
            # The end of a turn is an event; the end of background work is not published to all clients.
            data = {"background": True} if core.interpreter.turn is None else None
            reply = cmd.Reply(session=core.session, seq=entry.seq, data=data)
            transition.save_replies(command, reply)
        await self.supervisor.running().interrupt(interrupt_key(entry.seq))
        return reply

    # --- settings ---------------------------------------------------------------------------------------

    async def _set_mode(self, command: cmd.SetMode, by: str) -> cmd.Reply:
        self.modes().check(command.mode)
        core = self.core
        core.requested_mode = RequestedMode(command.mode, by, command.request)
        unchanged = core.state.settings.mode == command.mode
        try:
            agent = self.supervisor.accepts_change(mode=command.mode)
            if agent is not None:
                await agent.set_mode(command.mode)
            reply = await self._log(command, lambda cause: decide.set_mode(core.state, command, by, cause))
        finally:
            core.requested_mode = None
        return msgspec.structs.replace(reply, data={"unchanged": True}) if unchanged else reply

    def modes(self) -> ModePolicy:
        policy = self.core.services.policy
        if self.supervisor.agent is None:
            return ModePolicy(allow_bypass=policy.allow_bypass)
        return ModePolicy.for_agent(self.supervisor.agent.modes, allow_bypass=policy.allow_bypass)

    async def _set_model(self, command: cmd.SetModel, by: str) -> cmd.Reply:
        check_word("model", command.model)
        agent = self.supervisor.accepts_change(model=command.model)
        if agent is not None:
            await agent.set_model(command.model)
        return await self._log(
            command, lambda cause: ev.ModelChanged(id=event_id(cause, "model.changed"), model=command.model, by=by)
        )

    async def _set_thinking(self, command: cmd.SetThinking, by: str) -> cmd.Reply:
        if command.budget is not None and not 0 <= command.budget <= 1_000_000:
            raise BadRequest("A thinking budget is a number of tokens from 0 to 1000000, or null.")
        agent = self.supervisor.accepts_change(thinking=command.budget)
        if agent is not None:
            await agent.set_thinking(command.budget)
        return await self._log(
            command,
            lambda cause: ev.ThinkingChanged(id=event_id(cause, "thinking.changed"), budget=command.budget, by=by),
        )

    async def _set_rules(self, command: cmd.SetRules, by: str, *, admin: bool) -> cmd.Reply:
        allow = self.asking.check_requested_rules(command.allow, Behavior.ALLOW, admin=admin)
        deny = self.asking.check_requested_rules(command.deny, Behavior.DENY, admin=admin)
        core = self.core

        def decided(cause: str) -> ev.SessionChanged | None:
            if (allow.kept, deny.kept) == (core.state.allow, core.state.deny):
                return None
            return _changed(cause, by, allow=allow.kept, deny=deny.kept)

        reply = await self._log(command, decided)
        changes = {"narrowed": allow.narrowed | deny.narrowed, "refused": allow.refused | deny.refused}
        data = {name: rules for name, rules in changes.items() if rules}
        return msgspec.structs.replace(reply, data=data) if data else reply

    async def _configure(self, command: cmd.Configure, who: Identity) -> cmd.Reply:
        """Store the new settings in the session; the agent gets them before its next turn."""
        check_settings(command.settings, self.modes())
        settings = msgspec.to_builtins(command.settings)

        def decided(cause: str) -> ev.SessionChanged:
            check_difference(who, self.core.state.settings, command.settings)
            return _changed(cause, who.name, settings=settings)

        return await self._log(command, decided)

    # --- the agent ----------------------------------------------------------------------------------------

    async def _rewind(self, command: cmd.Rewind, by: str) -> cmd.Reply:
        agent = await self.supervisor.ensure_running()
        result = await agent.rewind(command.message, dry_run=command.dry_run)
        if command.dry_run or not result.get("canRewind", True):
            return self._reply(result)
        reply = await self._log(
            command,
            lambda cause: ev.Rewound(id=event_id(cause, "rewound"), message=command.message, by=by, result=result),
        )
        return msgspec.structs.replace(reply, data=result)

    async def _control(self, command: cmd.Control) -> cmd.Reply:
        name = command.subtype
        if name in self.kind.reserved_controls:
            raise NotAllowed(f"{name} is reserved for the gateway: use the command that does it.", subtype=name)
        agent = await self.supervisor.ensure_running()
        return self._reply(await agent.control(name, command.fields))

    async def _set_variables(self, command: cmd.SetVariables) -> cmd.Reply:
        allowed = self.core.services.session_env
        for name in command.variables:
            if name not in allowed:
                raise NotAllowed(
                    f"The variable {name[:80]} is not one of session_env: {', '.join(sorted(allowed)) or 'none'}.",
                    variable=name[:80],
                )
        if not command.variables:
            raise BadRequest("Name the variables to set.")
        await self.supervisor.running().set_variables(command.variables)
        return self._reply()

    async def _close(self, command: cmd.Close, by: str) -> cmd.Reply:
        await self.handovers.drop(by, "the session was closed")
        await self.supervisor.stop(f"closed by {by}" if by else "closed")
        return await self._log(
            command, lambda cause: ev.SessionClosed(id=event_id(cause, "session.closed"), reason="closed", by=by)
        )

    async def shutdown(self, *, detach: bool = False) -> None:
        self.turn_waiters.release()
        try:
            await self.supervisor.shutdown(detach=detach)
            await self.core.log.store.release(self.core.log.lease)
        except FairleadError as error:
            logger.warning("closing a session failed", extra={"session": self.core.session, "error": error.message})


def _changed(cause: str, by: str, **fields: Any) -> ev.SessionChanged:
    return ev.SessionChanged(id=event_id(cause, "session.changed"), by=by, **fields)


def _lent(command: cmd.AttachShim, by: str) -> LentProcess:
    return LentProcess(
        version=command.version, agent_session=command.agent_session, pid=command.pid, started=command.started, by=by
    )


def _title(text: str) -> str:
    title = "".join(character for character in text if character.isprintable()).strip()
    if not title or len(title) > 200:
        raise BadRequest("A title has 1 to 200 printable characters.")
    return title


def check_word(what: str, text: str) -> None:
    """Check a value that becomes part of the agent's command line: it cannot contain a second option."""
    if len(text) > 200 or text.startswith("-") or not all(c.isalnum() or c in "._-:/[]@" for c in text):
        raise BadRequest(f"{text[:40]!r} cannot be a {what}: letters, digits and ._-:/@[] only, no leading dash.")


def check_settings(settings: cmd.Settings, modes: ModePolicy) -> None:
    modes.check(settings.mode)
    check_word("model", settings.model)
    check_word("effort", settings.effort)
    for number, what in ((settings.max_turns, "max_turns"), (settings.max_budget_usd, "max_budget_usd")):
        if number is not None and number <= 0:
            raise BadRequest(f"{what} must be above 0.")
