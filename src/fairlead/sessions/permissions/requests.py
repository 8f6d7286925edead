"""Permission requests of one session: the policy's verdict before a tool runs, and the requests that a person answers.

requested -> resolved (by whom, how) | cancelled (why) -> delivered. A request is resolved once: under the session's
lock, stored in the log, and only then delivered to the agent.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from fairlead.model import events as ev
from fairlead.model.agents import Agent, Decision, PermissionRequest, ToolCheck
from fairlead.model.commands import AnswerPermission, Reply
from fairlead.model.decisions import decision_of
from fairlead.model.errors import AgentNotRunning, AgentRefused, FairleadError, NotAllowed
from fairlead.model.formats.bounded_tables import keep_newest
from fairlead.model.ids import CallId, RequestId
from fairlead.model.policy import BadRule, Behavior, Verdict, format_rule, parse_mode, parse_rule
from fairlead.sessions import decide
from fairlead.sessions.commit import SessionCore
from fairlead.sessions.permissions.policy.call import PolicyContext, ToolCall
from fairlead.sessions.permissions.policy.decide import decide as judge
from fairlead.sessions.permissions.policy.remember import check_or_narrow, check_remembered
from fairlead.sessions.permissions.policy.suggest import suggest
from fairlead.sessions.state import PendingRequest

MOST_REQUESTED_RULES = 100
"""Rules of one kind that a client may add; each is evaluated for every call."""

MOST_FOLDERS = 256
"""Number of calls whose folder is kept at a time."""


class RequestedRules(msgspec.Struct, frozen=True):
    """The outcome for the rules that a client asked for.

    `kept`: the rules that the session now has, without duplicates. `narrowed`: for a requested rule that was too wide,
    the narrower rule in its place. `refused`: for every other rule the reason.
    """

    kept: tuple[str, ...]
    narrowed: dict[str, str]
    refused: dict[str, str]


class PermissionRequests:
    def __init__(self, core: SessionCore) -> None:
        self.core = core
        self._folders: dict[CallId, str] = {}  # the agent's folder at a call, if it was not the session's folder

    def context(self, call: CallId | None = None) -> PolicyContext:
        """Return the context for a verdict: the session's mode and rules, the gateway's settings."""
        state, policy = self.core.state, self.core.services.policy
        allowed = (parse_rule(text, Behavior.ALLOW) for text in (*state.rules, *state.allow))
        denied = (parse_rule(text, Behavior.DENY) for text in state.deny)
        return PolicyContext(
            cwd=state.cwd,
            moved=self._folders.get(call, "") if call is not None else "",
            # The gateway's roots limit where sessions may be; a session's calls are limited by its own folders.
            roots=state.settings.directories,
            mode=parse_mode(state.settings.mode),
            rules=(*policy.rules, *allowed, *denied),
            fences=policy.fences,
            resolve=policy.resolve,
            home=policy.home,
            entries=policy.entries,
            tools=self.core.services.kind(state.agent).tools,
            agent_files=policy.agent_files,
        )

    def judge(self, tool: str, tool_input: Mapping[str, Any], call: CallId | None = None) -> Verdict:
        return judge(ToolCall(tool, tool_input), self.context(call))

    def _note_folder(self, call: ToolCheck) -> None:
        """Keep the folder of a call for the permission requests about it that may follow."""
        if call.folder.startswith("/") and call.folder != self.core.state.cwd:
            keep_newest(self._folders, call.call, call.folder, MOST_FOLDERS)

    def suggest(self, tool: str, tool_input: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the rules that an "always allow" of this call would remember."""
        return tuple(format_rule(rule) for rule in suggest(ToolCall(tool, tool_input), self.context()))

    def check_requested_rules(self, rules: Sequence[str], behavior: Behavior, *, admin: bool) -> RequestedRules:
        """Check the rules of one kind that a client wants to add: keep, narrow or refuse each."""
        kept: dict[str, None] = {}
        narrowed: dict[str, str] = {}
        refused = dict.fromkeys(
            rules[MOST_REQUESTED_RULES:], f"only the first {MOST_REQUESTED_RULES} rules of a kind are taken"
        )
        context = self.context()
        for text in rules[:MOST_REQUESTED_RULES]:
            try:
                rule = format_rule(check_or_narrow(text, behavior, context, admin=admin))
            except FairleadError as error:
                refused[text] = str(error.data["problem"]) if isinstance(error, BadRule) else error.message
                continue
            kept[rule] = None
            if rule != text.strip():
                narrowed[text] = rule
        return RequestedRules(tuple(kept), narrowed, refused)

    async def check(self, call: ToolCheck) -> Verdict:
        """Check a call before the agent's own rules: our denial holds whatever the settings of the project allow."""
        self._note_folder(call)
        verdict = self.judge(call.tool, call.input, call.call)
        if call.observed and not verdict.forbids:
            return Verdict(Behavior.ASK, "The caller of the agent decides.")
        if call.used:
            await self._report_used(call, verdict)
            return verdict
        if verdict.behavior == Behavior.ASK or (verdict.behavior == Behavior.ALLOW and verdict.by == "default"):
            return verdict
        async with self.core.transaction() as transition:
            transition.add(decide.resolve_by_policy(self.core.state, call, verdict, call.call))
        return verdict

    async def _report_used(self, call: ToolCheck, verdict: Verdict) -> None:
        """Log an error if the agent used a tool without asking that a rule or the fence denies."""
        if verdict.forbids:
            what = f"The agent {self.core.state.agent} used {call.tool} without asking ({verdict.reason})"
            error = NotAllowed(f"{what}. Its turn is interrupted.", call=call.call, tool=call.tool)
            async with self.core.transaction() as transition:
                transition.fail(error, call.call)

    async def resolve_by_policy(self, ask: PermissionRequest) -> ev.PermissionResolved | None:
        """Resolve a request of the agent, if the policy can; the request is in the log already."""
        verdict = self.judge(ask.tool, ask.input, ask.call)
        core = self.core
        async with core.transaction() as transition:
            pending = core.state.find_pending(ask.request)
            if pending is None or verdict.behavior == Behavior.ASK or _too_uncertain(pending, verdict):
                return None
            resolved = decide.resolve_by_policy(core.state, pending, verdict, core.services.new_uuid())
            transition.add(resolved)
        return resolved

    async def answer(self, command: AnswerPermission, by: str, agent: Agent | None, *, admin: bool) -> Reply:
        """Store a person's answer, then deliver it to the agent."""
        core = self.core
        async with core.client_transaction() as transition:
            rules = check_remembered(command.remember, self.context(), admin=admin)
            command = msgspec.structs.replace(command, remember=rules)
            resolved = decide.answer(core.state, command, by, core.services.new_uuid(), self.judge)
            self._check_edited(resolved)
            reply = Reply(session=core.session, seq=transition.add(resolved).seq)
            transition.save_replies(command, reply)
        await self.deliver(agent, resolved)
        if resolved.remembered:
            await self._settle_by_rules(agent)
        return reply

    async def answered_by_caller(self, request: RequestId, decision: Decision, by: str) -> bool:
        """Store the answer of the agent's own caller. Return False if the request was resolved by another answer."""
        core = self.core
        async with core.transaction() as transition:
            pending = core.state.find_pending(request)
            if pending is None:
                return all(request != known for known, _ in core.state.decided)
            transition.add(decide.answered_by_caller(core.state, pending, decision, by, core.services.new_uuid()))
        return True

    def _check_edited(self, resolved: ev.PermissionResolved) -> None:
        """Raise AgentRefused if the person changed the input of a tool, and the agent runs it as it was."""
        kind = self.core.services.kind(self.core.state.agent)
        changed = resolved.updated_input is not None and resolved.updated_input != resolved.input
        if changed and "edited_input" not in kind.capabilities and kind.tools.find(resolved.tool).effect != "question":
            raise AgentRefused(
                f"The agent {kind.name} cannot run a tool with a changed input.", capability="edited_input"
            )

    async def _settle_by_rules(self, agent: Agent | None) -> None:
        """Evaluate every other pending request again: the rules that were just remembered may allow it."""
        core = self.core
        settled: list[ev.PermissionResolved] = []
        async with core.transaction() as transition:
            for pending in core.state.pending:
                verdict = self.judge(pending.tool, pending.input, pending.call)
                if verdict.behavior is Behavior.ALLOW and verdict.by == "rule" and pending.certain:
                    settled.append(decide.resolve_by_policy(core.state, pending, verdict, core.services.new_uuid()))
                    transition.add(settled[-1])
        for resolved in settled:
            await self.deliver(agent, resolved)

    async def deliver(self, agent: Agent | None, resolved: ev.PermissionResolved) -> None:
        """Give the agent its answer. An answer that no agent can receive any more is cancelled."""
        with suppress(AgentNotRunning):
            if agent is not None:
                await agent.answer(resolved.request, decision_of(resolved))
                return
        async with self.core.transaction() as transition:
            transition.cancel([resolved.request], "the agent ended before it received the answer")

    async def cancel(self, request: RequestId, reason: str) -> None:
        """Cancel a request, unless it is resolved already."""
        async with self.core.transaction() as transition:
            if self.core.state.find_pending(request) is not None:
                transition.cancel([request], reason)


def _too_uncertain(pending: PendingRequest, verdict: Verdict) -> bool:
    """Whether the policy would allow a call of which it does not know exactly what it does. A mode that allows
    everything allows this too."""
    return verdict.behavior is Behavior.ALLOW and not pending.certain and verdict.by != "mode"
