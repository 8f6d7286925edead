"""Where each line goes: between caller and CLI as if there were no shim, and a copy to the gateway."""

import itertools
import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agents.claude.launch import POLICY_HOOK
from fairlead.agents.claude.shim.frames import (
    AnswerAccepted,
    CallerLine,
    CliInput,
    CliLine,
    EndCli,
    Stored,
    unpack,
)
from fairlead.cli.shim.router import (
    AwaitGateway,
    CloseCliInput,
    Effect,
    EndProcess,
    Router,
    ToCaller,
    ToCli,
    ToGateway,
)

Line = dict[str, Any]
PROMPT: Line = {"type": "user", "message": {"role": "user", "content": "hi"}, "uuid": "u1"}
RESULT: Line = {"type": "result", "subtype": "success"}


def raw(line: Line) -> bytes:
    return json.dumps(line).encode() + b"\n"


def request(request_id: str, subtype: str, **fields: Any) -> Line:
    return {"type": "control_request", "request_id": request_id, "request": {"subtype": subtype, **fields}}


def response(request_id: str, **fields: Any) -> Line:
    return {"type": "control_response", "response": {"subtype": "success", "request_id": request_id, **fields}}


def asked(name: str = "ask") -> Line:
    return request(name, "can_use_tool", tool_name="Bash", input={}, tool_use_id="t1")


def hooked(name: str = "hook", callback: str = POLICY_HOOK) -> Line:
    return request(name, "hook_callback", callback_id=callback, input={})


class ShimTrial:
    """A router, and what it has sent to each side."""

    def __init__(self, *, asks: bool = True, approvals: bool = False, attached: bool = True) -> None:
        numbers = itertools.count(1)
        self.router = Router(asks=asks, approvals=approvals, new_id=lambda: f"id{next(numbers)}")
        self.caller: list[Line] = []
        self.cli: list[Line] = []
        self.gateway: list[Line] = []
        self.others: list[Effect] = []
        self._inputs = itertools.count(1)
        if attached:
            self.apply(self.router.gateway_opened(same_link=False))

    def apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case ToCaller():
                    self.caller.append(json.loads(effect.line))
                case ToCli():
                    assert effect.line.endswith(b"\n")
                    self.cli.append(json.loads(effect.line))
                case ToGateway(frame=CliLine() | CallerLine() as frame):
                    self.gateway.append(json.loads(unpack(frame.line)))
                case _:
                    self.others.append(effect)

    def caller_sends(self, line: Line) -> None:
        self.apply(self.router.from_caller(raw(line)))

    def cli_sends(self, line: Line) -> None:
        self.apply(self.router.from_cli(raw(line)))

    def gateway_sends(self, line: Line) -> None:
        frame = CliInput(n=next(self._inputs), line=msgspec.Raw(json.dumps(line).encode()))
        self.apply(self.router.from_gateway(frame))


def test_a_prompt_goes_to_the_cli_and_its_copy_to_the_gateway() -> None:
    trial = ShimTrial()
    trial.caller_sends(request("r1", "initialize"))
    trial.caller_sends(PROMPT)
    assert trial.cli[1:] == trial.gateway == [PROMPT]


def test_all_fields_of_a_prompt_are_passed() -> None:
    trial = ShimTrial()
    trial.caller_sends({**PROMPT, "client_composed": True, "session_id": "", "unknown": {"a": [1]}})
    assert trial.cli[-1] == {**PROMPT, "client_composed": True, "session_id": "", "unknown": {"a": [1]}}


def test_the_policy_hook_is_the_first_and_the_callers_hooks_stay() -> None:
    trial = ShimTrial()
    mine: dict[str, Any] = {
        "PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["mine"]}],
        "Stop": [{"hookCallbackIds": ["stop"]}],
    }
    trial.caller_sends(request("r1", "initialize", hooks=mine, agents={"a": 1}))
    (sent,) = trial.cli
    assert sent["request"]["agents"] == {"a": 1}
    policy, own = sent["request"]["hooks"]["PreToolUse"]
    assert policy["hookCallbackIds"] == [POLICY_HOOK] and own == mine["PreToolUse"][0]
    assert sent["request"]["hooks"]["Stop"] == mine["Stop"]
    trial.cli_sends(response("r1", response={"commands": []}))
    assert trial.caller == [response("r1", response={"commands": []})]


def test_a_caller_that_does_not_initialize_notices_nothing_of_ours() -> None:
    trial = ShimTrial()
    trial.caller_sends(PROMPT)
    initialize, prompt = trial.cli
    assert initialize["request"]["subtype"] == "initialize" and prompt == PROMPT
    trial.cli_sends(response(initialize["request_id"]))
    assert trial.caller == []


def test_the_gateway_need_not_wait_for_the_caller_to_initialize() -> None:
    trial = ShimTrial()
    trial.gateway_sends(request("g1", "initialize"))
    assert trial.cli == []
    assert trial.gateway[0]["response"]["request_id"] == "g1"


def test_the_callers_hooks_servers_and_requests_stay_between_caller_and_cli() -> None:
    trial = ShimTrial()
    trial.caller_sends(request("r1", "initialize"))
    for line in (hooked("h1", "mine"), request("m1", "mcp_message", server_name="s", message={})):
        trial.cli_sends(line)
    assert [line["request_id"] for line in trial.caller] == ["h1", "m1"]
    for name in ("h1", "m1"):
        trial.caller_sends(response(name))
    trial.caller_sends(request("r2", "mcp_status"))
    trial.cli_sends(response("r2"))
    assert trial.caller[-1] == response("r2")
    assert trial.cli[1:] == [response("h1"), response("m1"), request("r2", "mcp_status")]
    assert trial.gateway == []


def test_the_gateways_requests_are_not_shown_to_the_caller() -> None:
    trial = ShimTrial()
    trial.caller_sends(request("r1", "initialize"))
    trial.gateway_sends(request("g1", "set_model", model="opus"))
    trial.cli_sends(response("g1"))
    assert trial.cli[-1]["request_id"] == "g1"
    assert trial.caller == [] and trial.gateway == [response("g1")]


def test_the_gateways_answer_withdraws_the_callers_card() -> None:
    trial = ShimTrial()
    trial.cli_sends(asked())
    assert trial.caller == trial.gateway == [asked()]
    trial.gateway_sends(response("ask", response={"behavior": "allow"}))
    assert trial.cli == [response("ask", response={"behavior": "allow"})]
    assert trial.caller[-1] == {"type": "control_cancel_request", "request_id": "ask"}
    trial.caller_sends(response("ask", response={"behavior": "deny"}))
    assert len(trial.cli) == 1, "the caller was too late"


def test_the_callers_answer_waits_for_the_gateways_word() -> None:
    trial = ShimTrial()
    answer = response("ask", response={"behavior": "allow", "updatedPermissions": [1]})
    trial.cli_sends(asked())
    trial.caller_sends(answer)
    assert trial.cli == [] and trial.others == [AwaitGateway("ask")]
    assert trial.gateway[-1] == answer
    trial.apply(trial.router.from_gateway(AnswerAccepted(request="ask")))
    assert trial.cli == [answer]
    trial.apply(trial.router.gateway_is_silent("ask"))
    assert trial.cli == [answer]


def test_without_the_gateways_word_the_callers_answer_counts() -> None:
    answer = response("ask", response={"behavior": "deny"})
    for lost in (True, False):
        trial = ShimTrial()
        trial.cli_sends(asked())
        trial.caller_sends(answer)
        trial.apply(trial.router.gateway_lost() if lost else trial.router.gateway_is_silent("ask"))
        assert trial.cli == [answer]


def test_a_caller_that_cannot_answer_does_not_see_requests() -> None:
    trial = ShimTrial(asks=False, approvals=True)
    trial.cli_sends(asked())
    assert trial.caller == [] and trial.gateway == [asked()]
    trial.gateway_sends(response("ask"))
    assert trial.caller == [] and trial.cli == [response("ask")]


def test_the_policy_is_asked_only_while_a_gateway_is_there() -> None:
    trial = ShimTrial()
    trial.cli_sends(hooked("h1"))
    assert trial.gateway == [hooked("h1")] and trial.caller == []
    trial.gateway_sends(response("h1", response={"hookSpecificOutput": {}}))
    assert trial.cli[-1]["response"]["request_id"] == "h1"
    trial.cli_sends(hooked("h2"))
    trial.apply(trial.router.gateway_lost())
    trial.cli_sends(hooked("h3"))
    assert [line["response"]["request_id"] for line in trial.cli] == ["h1", "h2", "h3"]
    assert all(not line["response"]["response"] for line in trial.cli[1:]), "no opinion"


def test_a_gateway_that_is_back_gets_the_open_requests_again() -> None:
    trial = ShimTrial()
    trial.cli_sends(asked())
    trial.apply(trial.router.gateway_lost())
    trial.gateway.clear()
    trial.apply(trial.router.gateway_opened(same_link=False))
    assert trial.gateway == [asked()]
    trial.gateway_sends(response("ask"))
    assert trial.cli == [response("ask")]


def test_input_that_was_resent_is_skipped() -> None:
    trial = ShimTrial()
    frame = CliInput(n=1, line=msgspec.Raw(json.dumps(PROMPT).encode()))
    for _ in range(2):
        trial.apply(trial.router.from_gateway(frame))
    assert trial.cli[1:] == [PROMPT]


def test_a_request_that_the_cli_withdraws_is_withdrawn_from_both() -> None:
    trial = ShimTrial()
    cancelled = {"type": "control_cancel_request", "request_id": "ask"}
    trial.cli_sends(asked())
    trial.cli_sends(cancelled)
    assert trial.caller[-1] == trial.gateway[-1] == cancelled
    hook = {"type": "control_cancel_request", "request_id": "h1"}
    trial.cli_sends(hooked("h1"))
    trial.cli_sends(hook)
    assert trial.gateway[-1] == hook and hook not in trial.caller


def test_the_clis_input_is_closed_when_nothing_is_owed() -> None:
    trial = ShimTrial()
    trial.caller_sends(PROMPT)
    trial.apply(trial.router.caller_ended())
    assert trial.others == [], "the policy may have to answer a hook"
    trial.cli_sends(RESULT)
    assert trial.others == [CloseCliInput()]
    assert trial.caller[-1] == trial.gateway[-1] == RESULT


def test_merged_prompts_have_one_result() -> None:
    trial = ShimTrial()
    for name in ("u1", "u2"):
        trial.caller_sends({**PROMPT, "uuid": name})
    trial.apply(trial.router.cli_is_quiet())
    trial.apply(trial.router.caller_ended())
    trial.cli_sends(RESULT)
    assert trial.others == []
    trial.apply(trial.router.cli_is_quiet())
    assert trial.others == [CloseCliInput()]


def test_a_request_that_nobody_can_answer_ends_the_input() -> None:
    """As without the shim: the CLI then denies the call."""
    trial = ShimTrial()
    trial.caller_sends(PROMPT)
    trial.apply(trial.router.caller_ended())
    trial.cli_sends(asked())
    assert trial.others == [CloseCliInput()]


def test_a_person_can_end_the_process() -> None:
    trial = ShimTrial()
    trial.apply(trial.router.from_gateway(EndCli(reason="closed by ann")))
    trial.apply(trial.router.from_gateway(Stored(n=3)))
    assert trial.others == [EndProcess("closed by ann")]


def test_an_interrupt_is_reported() -> None:
    trial = ShimTrial()
    trial.caller_sends(request("r1", "initialize"))
    trial.caller_sends(request("r2", "interrupt"))
    assert trial.cli[-1] == trial.gateway[-1] == request("r2", "interrupt")


def test_lines_that_are_no_messages_are_passed_unchanged() -> None:
    router = Router(asks=True, approvals=False, new_id=lambda: "id")
    assert router.from_caller(b"\n") == [ToCli(b"\n")]
    assert router.from_caller(b"not json\n") == [ToCli(b"not json\n")]
    assert router.from_cli(b"warning \xff\n")[0] == ToCaller(b"warning \xff\n")
    assert router.from_cli(b'"control_ "result" \n')[0] == ToCaller(b'"control_ "result" \n')


_TEXTS: list[Line] = [{"type": "assistant", "uuid": "a"}, {"type": "stream_event", "uuid": "s"}, RESULT]
_STEPS = st.lists(
    st.one_of(
        st.sampled_from(["gateway lost", "gateway back"]),
        st.tuples(st.just("cli"), st.sampled_from(_TEXTS)),
        st.tuples(st.sampled_from(["ask", "hook", "my hook"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["caller answers", "gateway answers", "gateway accepts"]), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(_STEPS)
def test_every_request_is_answered_at_most_once_and_every_record_is_passed_once(steps: list[Any]) -> None:
    trial = ShimTrial()
    trial.caller_sends(request("r1", "initialize"))
    written: list[Line] = []
    open_requests: dict[str, int] = {}
    for place, step in enumerate(steps):
        match step:
            case "gateway lost":
                trial.apply(trial.router.gateway_lost())
            case "gateway back":
                trial.apply(trial.router.gateway_opened(same_link=place % 2 == 0))
            case ("cli", line):
                written.append({**line, "uuid": str(place)})
                trial.cli_sends(written[-1])
            case ("ask" | "hook" | "my hook" as kind, number):
                name = f"{kind} {number}"
                if name not in open_requests:
                    open_requests[name] = len(trial.cli)
                    trial.cli_sends(
                        asked(name) if kind == "ask" else hooked(name, POLICY_HOOK if kind == "hook" else "m")
                    )
            case ("caller answers", number):
                trial.caller_sends(response(f"ask {number}", response={"behavior": "allow"}))
            case ("gateway answers", number):
                for kind in ("ask", "hook"):
                    trial.gateway_sends(response(f"{kind} {number}", response={"behavior": "deny"}))
            case ("gateway accepts", number):
                trial.apply(trial.router.from_gateway(AnswerAccepted(request=f"ask {number}")))
    records = [line for line in trial.caller if not line["type"].startswith("control_")]
    assert records == written
    assert [line for line in trial.gateway if not line["type"].startswith("control_")] == written
    for name, asked_at in open_requests.items():
        # What the caller answers before it is asked is passed on, as without the shim: the CLI knows no such request.
        later = [line for line in trial.cli[asked_at:] if line["type"] == "control_response"]
        answers = [line for line in later if line["response"]["request_id"] == name]
        assert len(answers) <= 1 or name.startswith("my hook")
    trial.apply(trial.router.gateway_lost())
    settled = [line["response"]["request_id"] for line in trial.cli if line["type"] == "control_response"]
    assert all(name in settled for name in open_requests if name.startswith("hook")), "no hook waits for ever"
