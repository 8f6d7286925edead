"""Golden cases of /shell frames: tests/golden/claudecodeui-shell/<case>/in.jsonl has one input a line (`say`: a frame
of the client, `seated`, `print`, `redraw`, `exit`, `refuse`, `fail`); out.jsonl has the results: the requested program
(`wanted`), the input to the program (`keys`, `size`) and the frames to the client (`frame`). FAIRLEAD_WRITE=1 rewrites
them: then review the diff.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.clients.claudecodeui.shell import EARLY_BYTES, ShellCodec, ShellConversation
from fairlead.config import BadSetting, load
from fairlead.model.agents import Exit
from fairlead.model.auth import Identity
from fairlead.model.errors import AgentMissing, AgentNotRunning, BadId, BadRequest, Busy, NotFound, OutsideRoots
from fairlead.model.formats.frames import split_frames
from fairlead.model.web.requests import Head
from fairlead.model.web.sockets import AttachOwner, Handshake, Write
from fairlead.terminals.api import (
    FoundUrl,
    ProgramAttached,
    ProgramRequest,
    Size,
    TerminalOutput,
    TerminalReply,
    TypedKeys,
)
from fairlead.terminals.launcher.programs import PROVIDERS, Provider, command_keys, key, resumes, words
from fairlead.wiring.settings import providers
from flows import drive

CASES = Path(__file__).parents[2] / "golden" / "claudecodeui-shell"
NAMES = sorted(path.name for path in CASES.iterdir())
ERRORS = {
    "roots": OutsideRoots("/etc", ("/p",)),
    "folder": NotFound("folder", "/p/nowhere"),
    "session-id": BadId("session", "--x"),
    "session": NotFound("session", "x"),
    "missing": AgentMissing("codex cannot be started in a terminal: No such file or directory."),
    "busy": Busy("A turn is running."),
    "gone": AgentNotRunning("The program of this terminal has ended."),
}


def frames(data: bytes) -> list[dict[str, Any]]:
    return [{"frame": json.loads(payload)} for _, payload in split_frames(data)]


def play(codec: ShellCodec, line: dict[str, Any]) -> list[dict[str, Any]]:
    urls = tuple(FoundUrl(**one) for one in line.get("urls", ()))
    match line:
        case {"say": sent}:
            match codec.read((sent if isinstance(sent, str) else json.dumps(sent)).encode()):
                case ProgramRequest() as wanted:
                    return [{"wanted": msgspec.to_builtins(wanted)}]
                case TypedKeys(data=keys):
                    return [{"keys": keys.decode()}]
                case Size(columns=columns, rows=rows):
                    return [{"size": [columns, rows]}]
                case TerminalReply(frames=data):
                    return frames(data)
        case {"seated": attached}:
            return frames(codec.attached(ProgramAttached(**attached)))
        case {"print": text}:
            return frames(codec.output(TerminalOutput(text.encode(), urls=urls)))
        case {"redraw": text}:
            return frames(codec.output(TerminalOutput(text.encode(), redraw=True, size=Size(80, 24), urls=urls)))
        case {"exit": exit}:
            return frames(codec.ended(Exit(**exit)))
        case {"refuse": name}:
            return frames(codec.refused(ERRORS[name]))
        case {"fail": name}:
            return frames(codec.failed(ERRORS[name]))
    raise AssertionError(line)


@pytest.mark.rules("S003-081", "S003-084", "S003-099", "S003-100", "S003-102", "S003-110", "S003-111", "S003-138")
@pytest.mark.parametrize("case", NAMES)
def test_case(case: str) -> None:
    codec = ShellCodec()
    given = [json.loads(line) for line in (CASES / case / "in.jsonl").read_text().splitlines()]
    found = [one for line in given for one in play(codec, line)]
    out = CASES / case / "out.jsonl"
    if os.environ.get("FAIRLEAD_WRITE"):
        out.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found))
    assert found == [json.loads(line) for line in out.read_text().splitlines()]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
FIELDS = (
    "projectPath",
    "sessionId",
    "hasSession",
    "provider",
    "cols",
    "rows",
    "initialCommand",
    "isPlainShell",
    "data",
)


@given(
    st.fixed_dictionaries({"type": st.sampled_from(["init", "input", "resize"])}, optional=dict.fromkeys(FIELDS, JSON))
    | JSON
)
def test_every_frame_is_decoded_to_a_valid_input(frame: Any) -> None:
    """Every frame is a program request, keys, a size, or a reply; a program request has a session id of safe
    characters, and an absolute path."""
    decoded = ShellCodec().read(json.dumps(frame).encode())
    assert isinstance(decoded, ProgramRequest | TypedKeys | Size | TerminalReply)
    if isinstance(decoded, ProgramRequest):
        assert re.fullmatch(r"[a-zA-Z0-9_.:-]*", decoded.session) and decoded.folder[:1] in ("", "/")
        assert not (decoded.command and decoded.provider) and (decoded.session or not decoded.resume)


@given(st.text(alphabet="ab-$`;| \n\"'\\\\{}()/.:", max_size=20), st.sampled_from(sorted(PROVIDERS)))
def test_no_session_id_adds_an_argument_or_an_option(session: str, provider: str) -> None:
    frame = {"type": "init", "projectPath": "/p", "provider": provider, "sessionId": session, "hasSession": True}
    wanted = ShellCodec().read(json.dumps(frame).encode())
    if not isinstance(wanted, ProgramRequest):
        return
    try:
        found = words(PROVIDERS, wanted)
    except BadId:
        assert session.startswith("-")
        return
    expected = PROVIDERS[provider].resume if session else PROVIDERS[provider].command
    assert len(found) == len(expected)
    assert [word.startswith("-") for word in found] == [word.startswith("-") for word in expected]


def test_the_memory_of_announced_urls_is_bounded() -> None:
    codec = ShellCodec()
    for number in range(5000):
        output = codec.output(TerminalOutput(b"", urls=(FoundUrl(f"https://a.example/{number}"),)))
        assert b"auth_url" in output


@pytest.mark.rules("S003-008")
def test_input_before_the_socket_has_an_owner_is_bounded() -> None:
    who = Identity("c", "u", "n", frozenset({"terminal"}))
    conversation = ShellConversation(
        Handshake(head=Head(method="GET", path="/"), who=who, version="1", fresh=lambda: "f")
    )
    frame = b'{"type":"input","data":"' + b"x" * (EARLY_BYTES // 4) + b'"}'
    for _ in range(10):
        assert conversation.throttled(frame, True, BadRequest("too many")) == ()
    (attach,) = drive(conversation, conversation.opened(), lambda step, lane: None)
    assert isinstance(attach, AttachOwner) and len(attach.early) == 3
    (error,) = conversation.failed(BadRequest("No."))
    assert isinstance(error, Write) and b"Error: No." in error.frames


# --- programs


@pytest.mark.rules("S003-099", "S003-100", "S003-105", "S003-106")
@pytest.mark.parametrize(
    ("provider", "fresh", "resumed"),
    [
        ("cursor", ("cursor-agent",), ("cursor-agent", "--resume=s:1")),
        ("codex", ("codex",), ("codex", "resume", "s:1")),
        ("opencode", ("opencode",), ("opencode", "--session", "s:1")),
    ],
)
def test_the_command_line_of_each_program(provider: str, fresh: tuple[str, ...], resumed: tuple[str, ...]) -> None:
    assert words(PROVIDERS, ProgramRequest(provider=provider)) == fresh
    assert words(PROVIDERS, ProgramRequest(provider=provider, session="s:1")) == fresh
    assert words(PROVIDERS, ProgramRequest(provider=provider, session="s:1", resume=True)) == resumed


def test_an_id_is_never_an_option_and_a_program_that_cannot_resume_starts_fresh() -> None:
    with pytest.raises(BadId):
        words(PROVIDERS, ProgramRequest(provider="codex", session="--config=x", resume=True))
    with pytest.raises(NotFound):
        words(PROVIDERS, ProgramRequest(provider="../../bin/sh"))
    once = {"once": Provider(command=("once", "now"))}
    wanted = ProgramRequest(provider="once", session="s", resume=True)
    assert words(once, wanted) == ("once", "now") and not resumes(once, wanted)


@pytest.mark.rules("S003-072", "S003-074")
def test_keys_do_not_collide() -> None:
    """Fault 17: different requests have different keys."""
    wishes = [
        ("u", "/p", ProgramRequest()),
        ("v", "/p", ProgramRequest()),
        ("u", "/q", ProgramRequest()),
        ("u", "/p", ProgramRequest(session="default")),
        ("u", "/p_default", ProgramRequest()),
        ("u", "/p", ProgramRequest(session="s")),
        ("u", "/p_s", ProgramRequest(session="t")),
        ("u", "/p", ProgramRequest(session="s_t")),
        ("u", "/p", ProgramRequest(provider="codex")),
        ("u", "/p", ProgramRequest(command="npm run build:one")),
        ("u", "/p", ProgramRequest(command="npm run build:two")),
    ]
    assert len({key(*wish) for wish in wishes}) == len(wishes)
    assert key("u", "/p", ProgramRequest()) == key(
        "u", "/p", ProgramRequest(size=Size(1, 1), resume=True, restart=True)
    )


def test_how_a_command_is_typed() -> None:
    assert command_keys("/bin/bash", "ls -l") == b"{ ls -l\r}; exit\r"
    assert command_keys("zsh", "one\ntwo\r\n") == b"{ one\rtwo\r}; exit\r"
    assert command_keys("/usr/bin/fish", "ls") == b"begin; ls\rend; exit\r"
    assert command_keys("/bin/tcsh", "ls") == b"ls\r"


def test_the_setting_provider(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert providers(load(env, {}).config) == PROVIDERS
    mine = {"command": ["mine", "--now"], "resume": ["mine", "{session}"]}
    chosen = providers(load(env, {"provider": {"mine": mine, "codex": {"command": ["/opt/codex"]}}}).config)
    assert chosen["mine"] == Provider(command=("mine", "--now"), resume=("mine", "{session}"))
    assert chosen["codex"] == Provider(command=("/opt/codex",)) and chosen["cursor"] == PROVIDERS["cursor"]
    for name in ("claude", "plain-shell"):
        with pytest.raises(BadRequest, match="is set by the setting"):
            providers(load(env, {"provider": {name: mine}}).config)
    bad: list[dict[str, Any]] = [{"command": []}, {"command": "sh -c x"}, {"resume": ["x"]}]
    for wrong in bad:
        with pytest.raises(BadSetting):
            load(env, {"provider": {"mine": wrong}})
