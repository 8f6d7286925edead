"""Decides whether a call may run: by the host's hook, the agent's own rules, or the person behind the host.

Rule: this module asks and decides; it never runs a tool. The order and the wording are those of the real CLI.
"""

from typing import TYPE_CHECKING

from fairlead.agents.demo.permissions import ALWAYS_ASKED, GrantVerdict, judge, question
from fairlead.agents.demo.records import Record
from fairlead.agents.demo.wire import HostGone, HostRefused

if TYPE_CHECKING:
    from fairlead.agents.demo.thread import Thread


class Refusal(Exception):
    """The call may not run. Carries the message for the model and the deciding party."""

    def __init__(self, sentence: str, meta: Record, *, interrupts: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.meta = meta
        self.interrupts = interrupts


def _rejected(kind: str, **decision: str) -> Record:
    return {"non_execution_kind": kind, "permission_decision": {"decision": "reject", **decision}}


class Gate:
    """Decides for one thread."""

    def __init__(self, thread: "Thread") -> None:
        self._thread = thread
        self._session = thread.session

    async def pass_or_refuse(self, call: Record, arguments: Record) -> tuple[Record, Record]:
        """Return the input to run with and the decision for the record. Raises Refusal if the call may not run."""
        name = call["name"]
        decision, reason, arguments = await self._pre_tool_use(call, arguments)
        if decision == "deny":
            self._denied(call, arguments)
            sentence = f"PreToolUse:{name} hook error: {reason}"
            raise Refusal(sentence, _rejected("permission-rule", source="hook", reason_type="hook"))
        verdict = judge(self._session.grants, name, arguments)
        if decision == "allow" and name not in ALWAYS_ASKED and verdict.behavior != "deny":
            return arguments, {"decision": "accept", "source": "hook", "reason_type": "hook"}
        if decision == "ask":
            verdict = GrantVerdict("ask")
        if verdict.behavior == "allow":
            return arguments, {"decision": "accept", **verdict.meta}
        if verdict.behavior == "deny" or not self._session.options.asks_host:
            self._denied(call, arguments)
            sentence = f"Permission to use {name} was not granted."
            self._session.emit_system("permission_denied", tool_name=name, tool_use_id=call["id"], message=sentence)
            raise Refusal(sentence, _rejected("user-rejected", **{"source": "config", **verdict.meta}))
        return await self._ask(call, arguments, verdict, reason if decision == "ask" else None)

    async def _pre_tool_use(self, call: Record, arguments: Record) -> tuple[str | None, str, Record]:
        """Return the strictest hook decision (deny, ask, allow, none), its reason, and the changed input."""
        try:
            answers = await self._call_hooks(call, arguments)
        except HostGone:
            sentence = "The host went away before its hook decided about this call."
            raise Refusal(sentence, {"non_execution_kind": "cancelled"}) from None
        decided: dict[str, str] = {}
        for answer in answers:
            output = answer.get("hookSpecificOutput")
            output = output if isinstance(output, dict) else {}
            if answer.get("continue") is False:
                why = str(answer.get("stopReason") or "A hook ended the run.")
                raise Refusal(why, {"non_execution_kind": "user-rejected"}, interrupts=True)
            decision = output.get("permissionDecision") or ("deny" if answer.get("decision") == "block" else None)
            if decision is not None:
                decided[decision] = str(output.get("permissionDecisionReason") or answer.get("reason") or "")
            if isinstance(output.get("updatedInput"), dict):
                arguments = output["updatedInput"]
        strictest = next((d for d in ("deny", "ask", "allow") if d in decided), None)
        return strictest, decided.get(strictest or "", ""), arguments

    async def _call_hooks(self, call: Record, arguments: Record) -> list[Record]:
        """Every callback's answer, in order. An error of the host counts as no answer, as in the CLI, unless the host
        asked for a block."""
        session = self._session
        about = {
            "session_id": session.id,
            "transcript_path": str(session.transcript.path),
            "cwd": session.cwd,
            "permission_mode": session.grants.mode,
            "hook_event_name": "PreToolUse",
            "tool_name": call["name"],
            "tool_input": arguments,
            "tool_use_id": call["id"],
        }
        answers: list[Record] = []
        for hook in session.hooks:
            for callback in hook.get("hookCallbackIds", []):
                request = {"subtype": "hook_callback", "callback_id": callback, "input": about}
                try:
                    answers.append(await session.wire.ask(request | {"tool_use_id": call["id"]}))
                except HostRefused:
                    if hook.get("onFailure") == "block":
                        answers.append({"decision": "block", "reason": "the host failed to answer its hook"})
                        continue
                    content = f"PreToolUse: the host answered hook callback {callback} with an error."
                    session.emit_system("informational", content=content, level="warning", tag="hook_callback_failed")
        return answers

    async def _ask(
        self, call: Record, arguments: Record, verdict: GrantVerdict, hook: str | None
    ) -> tuple[Record, Record]:
        asked = question(self._session.grants, call["name"], arguments, verdict, hook)
        request = {"subtype": "can_use_tool", **asked, "tool_use_id": call["id"]}
        if call["name"] in ALWAYS_ASKED:
            request["requires_user_interaction"] = True
        if self._thread.speaker.agent_id is not None:
            request["agent_id"] = self._thread.speaker.agent_id
        try:
            answer = await self._session.wire.ask(request)
        except (HostGone, HostRefused) as error:
            self._denied(call, arguments)
            gone = "the host closed the stream before it answered"
            problem = gone if isinstance(error, HostGone) else f"Error: {error}"
            why = _rejected("permission-rule", source="config", reason_type="other")
            raise Refusal(f"Tool permission request failed: {problem}", why) from None
        if answer.get("behavior") != "allow":
            self._denied(call, arguments)
            sentence = str(answer.get("message") or "Permission was denied.")
            why = _rejected("permission-rule", source="user_reject")
            raise Refusal(sentence, why, interrupts=bool(answer.get("interrupt")))
        updated = answer.get("updatedInput")
        # An empty object means "unchanged" for the tools whose input the question does not show.
        arguments = updated if isinstance(updated, dict) and updated else arguments
        return arguments, {"decision": "accept", "source": "user_temporary"}

    def _denied(self, call: Record, arguments: Record) -> None:
        denial = {"tool_name": call["name"], "tool_use_id": call["id"], "tool_input": arguments}
        self._thread.denials.append(denial)
