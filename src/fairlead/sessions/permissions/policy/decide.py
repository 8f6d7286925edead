"""The decision about one tool call. Pure and total; it does not trust any mode or rule of the CLI.

Order: the fence, deny rules, ask rules, questions that only a person answers, the mode, allow rules, read-only calls,
otherwise a person. Deny beats ask beats allow. For a call that is not understood, a person is asked.
"""

from fairlead.model.policy import Behavior, PermissionMode, Rule, Verdict, format_rule
from fairlead.sessions.permissions.policy.call import CallFacts, PolicyContext, ToolCall, facts_of
from fairlead.sessions.permissions.policy.fence import fence_doubt, fence_refusal, reads_attached
from fairlead.sessions.permissions.policy.rules import RuleMatch, find_allowing_rules, may_write, refuses


def decide(call: ToolCall, context: PolicyContext) -> Verdict:
    """Return the verdict on this call. Never raises, whatever the call's input is."""
    facts = facts_of(call, context)
    question = facts.kind.effect == "question"
    refused = None if question else fence_refusal(call, facts, context)
    if refused is not None:
        return Verdict(Behavior.DENY, refused, None, "fence")
    held = _refusing_rule(call, facts, context)
    if held is not None and held.behavior is Behavior.DENY:
        return held
    if question:
        return Verdict(Behavior.ASK, "only a person can answer this")
    if held is not None:
        return _asking(held, context)
    if facts.malformed is not None:
        return _asking(Verdict(Behavior.ASK, f"the call is malformed: {facts.malformed}"), context)
    doubt = fence_doubt(facts, context)
    if doubt is not None:
        return _asking(Verdict(Behavior.ASK, doubt, None, "fence"), context)
    return _by_mode(facts, context) or _by_allowance(call, facts, context)


def _asking(verdict: Verdict, context: PolicyContext) -> Verdict:
    """Return an ask verdict, turned into a denial in mode dontAsk."""
    if context.mode is PermissionMode.DONT_ASK:
        return Verdict(Behavior.DENY, f"mode dontAsk: {verdict.reason}", verdict.rule, "mode")
    return verdict


def _refusing_rule(call: ToolCall, facts: CallFacts, context: PolicyContext) -> Verdict | None:
    """Return the verdict of the refusing rules: a deny rule that matches, else an ask rule, else one that may match."""
    found: dict[tuple[Behavior, RuleMatch], Rule] = {}
    for rule in context.rules:
        if rule.behavior is not Behavior.ALLOW:
            found.setdefault((rule.behavior, refuses(rule, call, facts, context)), rule)
    for behavior, verb in ((Behavior.DENY, "denies"), (Behavior.ASK, "asks about")):
        if (behavior, RuleMatch.YES) in found:
            text = format_rule(found[behavior, RuleMatch.YES])
            return Verdict(behavior, f"the rule {text} {verb} it", text, "rule")
    for behavior in (Behavior.DENY, Behavior.ASK):
        if (behavior, RuleMatch.MAYBE) in found:
            text = format_rule(found[behavior, RuleMatch.MAYBE])
            return Verdict(Behavior.ASK, f"whether the rule {text} holds cannot be known before it runs", text, "rule")
    return None


def _by_mode(facts: CallFacts, context: PolicyContext) -> Verdict | None:
    """Return the verdict of the mode alone; None leaves the call to the allow rules."""
    kind = facts.kind
    match context.mode:
        case PermissionMode.BYPASS_PERMISSIONS:
            return _mode(Behavior.ALLOW, "mode bypassPermissions allows what no rule refuses")
        case PermissionMode.PLAN:
            if kind.effect in ("edit", "shell"):
                return _mode(Behavior.DENY, "mode plan is for reading only: propose the plan first")
            if not kind.reads and kind.effect not in ("harmless", "fetch"):
                return _mode(Behavior.ASK, "mode plan is for reading only, and this may do more")
        case PermissionMode.DELEGATE:
            if not kind.coordinates:
                return _mode(Behavior.DENY, "mode delegate leaves only coordination to this agent")
        case PermissionMode.ACCEPT_EDITS:
            if kind.effect == "edit" and may_write(facts.places, context):
                return _mode(Behavior.ALLOW, "mode acceptEdits allows edits inside the session's folders")
        case PermissionMode.DEFAULT | PermissionMode.AUTO | PermissionMode.DONT_ASK:
            # In `auto` the CLI's own classifier decides; here the mode allows no more than `default`.
            pass
    return None


def _mode(behavior: Behavior, reason: str) -> Verdict:
    return Verdict(behavior, reason, None, "mode")


def _by_allowance(call: ToolCall, facts: CallFacts, context: PolicyContext) -> Verdict:
    allowed, missing = find_allowing_rules(call, facts, context)
    if allowed is not None:
        return Verdict(Behavior.ALLOW, f"allowed by {allowed}", allowed, "rule")
    if facts.kind.effect == "harmless":
        return Verdict(Behavior.ALLOW, "by itself it does nothing outside the agent")
    if facts.kind.reads:
        if context.inside(facts.places):
            return Verdict(Behavior.ALLOW, "it only reads inside the session's folders")
        if reads_attached(facts, context):
            return Verdict(Behavior.ALLOW, "it only reads an attached file")
        missing = "it reads outside the session's folders"
    return _asking(Verdict(Behavior.ASK, missing), context)
