"""Records commands and service calls before they take effect: one seam around the gateway's port, one around its
handlers."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from msgspec import structs

from fairlead.audit.facts import NOT_RECORDED, RESULTS, Fact, of_call, of_command, subject_of
from fairlead.audit.log import FAILED, REPEATED, AuditLog
from fairlead.model import commands as cmd
from fairlead.model import events as ev
from fairlead.model.auth import Identity
from fairlead.model.errors import FairleadError
from fairlead.model.gateway import Gateway, GatewayWrapper
from fairlead.model.ids import MessageId, SessionId
from fairlead.model.queries import FindPermission, PendingView
from fairlead.model.scopes import check_scopes
from fairlead.model.store import Entry
from fairlead.model.web.requests import ServiceCall, ServiceHandler, ServiceHandlers


class AuditedGateway(GatewayWrapper):
    """The port of `gateway`, with an entry before each command and each export. `fresh` makes ids of messages."""

    def __init__(self, gateway: Gateway, audit: AuditLog, fresh: Callable[[], str]) -> None:
        super().__init__(gateway)
        self._audit = audit
        self._fresh = fresh

    async def command(self, who: Identity, command: cmd.Command) -> cmd.Reply:
        # A command that the credential may not send has no effect and is not recorded.
        check_scopes(who, command)
        if isinstance(command, cmd.Send | cmd.Steer) and not command.message:
            command = structs.replace(command, message=MessageId(self._fresh()))
        n = await self._audit.record(who, await self._fact(who, command))
        try:
            reply = await self.gateway.command(who, command)
        except Exception as error:
            self._audit.note(who, _failed(error), n)
            raise
        if reply.repeated:
            self._audit.note(who, Fact(REPEATED), n)
        return reply

    async def _fact(self, who: Identity, command: cmd.Command) -> Fact:
        fact = of_command(command, text=self._audit.text)
        if not isinstance(command, cmd.AnswerPermission):
            return fact
        # The entry says what was allowed. An answer that is too late fails, and its failure is recorded.
        with contextlib.suppress(FairleadError):
            found: PendingView = await self.gateway.ask(who, FindPermission(command.request))
            event = ev.decode(found.event)
            asks = {"about": "question" if isinstance(event, ev.QuestionAsked) else "plan"}
            more = subject_of(event.tool, event.input) if isinstance(event, ev.PermissionRequested) else asks
            fact = structs.replace(fact, session=found.session, data={**fact.data, **more})
        return fact

    async def export(self, who: Identity, session: SessionId) -> AsyncIterator[Entry]:
        n = await self._audit.record(who, Fact("session.export", session))
        try:
            async for entry in self.gateway.export(who, session):
                yield entry
        except FairleadError as error:
            self._audit.note(who, _failed(error), n)
            raise


def audited(handlers: ServiceHandlers, audit: AuditLog) -> dict[type[ServiceCall[Any]], ServiceHandler]:
    """Wrap handlers: a call that changes something is recorded before it is handled, or with what it made."""

    def wrap(kind: type[ServiceCall[Any]], handle: ServiceHandler) -> ServiceHandler:
        if kind in NOT_RECORDED:
            return handle
        describe = RESULTS.get(kind)
        return _before(handle, audit) if describe is None else _after(handle, audit, describe)

    return {kind: wrap(kind, handle) for kind, handle in handlers.items()}


def _before(handle: ServiceHandler, audit: AuditLog) -> ServiceHandler:
    async def recorded(who: Identity, call: Any) -> Any:
        n = await audit.record(who, of_call(call))
        try:
            return await handle(who, call)
        except Exception as error:
            audit.note(who, _failed(error), n)
            raise

    return recorded


def _after(handle: ServiceHandler, audit: AuditLog, describe: Callable[[Any], Mapping[str, Any]]) -> ServiceHandler:
    async def recorded(who: Identity, call: Any) -> Any:
        fact = of_call(call)
        try:
            made = await handle(who, call)
        except Exception as error:
            if who.credential:
                audit.note(who, structs.replace(fact, data={**fact.data, "failed": _code(error)}))
            else:
                audit.note_failed_sign_in({"action": fact.action, "code": _code(error)})
            raise
        result = describe(made)
        # Who signs in has no credential before, and acts with the new one from now on.
        actor = who if who.credential else Identity(result["credential"], result["user"], result["user"], frozenset())
        await audit.record(actor, structs.replace(fact, data={**fact.data, **result}))
        return made

    return recorded


def _failed(error: Exception) -> Fact:
    return Fact(FAILED, data={"code": _code(error)})


def _code(error: Exception) -> str:
    return error.code if isinstance(error, FairleadError) else "internal"
