"""The golden cases of every client protocol. FAIRLEAD_WRITE=1 rewrites their outputs: then review the diff."""

import os

import pytest

from fairlead.server.discovery import discover
from golden.cases import GOLDEN, case_names, describe, encode_log, log_file, read_log
from golden.runner import outputs

OUTPUTS = ("live.jsonl", "catchup.jsonl", "history.json")
PROTOCOLS = [protocol.name for protocol in discover()]
CASES = [
    pytest.param(protocol, case, marks=pytest.mark.rules(*describe(protocol, case).rules), id=f"{protocol}/{case}")
    for protocol in PROTOCOLS
    for case in case_names(protocol)
]


@pytest.mark.parametrize(("protocol", "case"), CASES)
async def test_a_case_comes_out_as_written(protocol: str, case: str) -> None:
    folder = GOLDEN / protocol / case
    log = read_log(protocol, case)
    assert encode_log(log) == log_file(protocol, case).read_bytes()
    made = await outputs(protocol, log)
    if os.environ.get("FAIRLEAD_WRITE"):
        for name in OUTPUTS:
            (folder / name).unlink(missing_ok=True)
        for name, data in made.items():
            (folder / name).write_bytes(data)
    written = {name: (folder / name).read_bytes() for name in OUTPUTS if (folder / name).exists()}
    assert {name: data.splitlines() for name, data in made.items()} == {
        name: data.splitlines() for name, data in written.items()
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_has_cases(protocol: str) -> None:
    assert case_names(protocol)


def test_every_shared_session_has_a_protocol_that_uses_it() -> None:
    shared = {path.name for path in (GOLDEN / "sessions").iterdir()}
    assert shared == {
        case
        for protocol in PROTOCOLS
        for case in case_names(protocol)
        if log_file(protocol, case).parent.parent.name == "sessions"
    }


@pytest.mark.parametrize("protocol", sorted({*PROTOCOLS} - {"direct"}))
def test_every_protocol_shows_that_an_agent_sent_a_message(protocol: str) -> None:
    """The direct protocol shows no prompts of other clients at all, as the CLI does not repeat its input."""
    shown = "".join(path.read_text() for path in (GOLDEN / protocol / "from-an-agent").glob("*.json*"))
    assert "[From the agent of session 22222222-2222-4222-8222-222222222222, depth 1 of 2." in shown
