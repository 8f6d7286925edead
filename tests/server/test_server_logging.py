"""Log lines: one per record, with fields, and never a secret."""

import ast
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead.server.logging import LineFormatter, Redactor, configure_logging
from restored_logging import restored_logging
from server.fakes import serving

TOKEN = "fl_abcdefgh_" + "a" * 52


def line(form: str, message: str, redactor: Redactor | None = None, **extra: object) -> str:
    record = logging.makeLogRecord({"name": "fairlead.x", "levelname": "INFO", "msg": message, "created": 0.0, **extra})
    return LineFormatter("json" if form == "json" else "text", redactor or Redactor()).format(record)


def test_a_line_has_its_fields() -> None:
    assert line("text", "connect", peer="127.0.0.1", who="Ann Onym") == (
        '1970-01-01T00:00:00.000Z info    fairlead.x: connect peer=127.0.0.1 who="Ann Onym"'
    )
    assert json.loads(line("json", "connect", peer="127.0.0.1", count=3)) == {
        "at": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "logger": "fairlead.x",
        "event": "connect",
        "peer": "127.0.0.1",
        "count": 3,
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_line_contains_no_line_breaks_and_no_terminal_sequences(form: str) -> None:
    output = line(form, "a\nb\x1b[31m", path="/x\r\nfake level=error", who="\x1b]0;title\x07")
    assert "\n" not in output and "\r" not in output and "\x1b" not in output and "\x07" not in output


def test_a_trace_stays_on_the_line() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        output = line("text", "unexpected error", exc_info=(type(error), error, error.__traceback__))
    assert "ValueError: broken" in output and "\n" not in output


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "message",
    [
        f"GET /v1/ws?token={TOKEN} HTTP/1.1",
        "GET /v1/ws?ticket=SECRETSECRET HTTP/1.1",
        "GET /v1/ws?a=1&ticket=SECRETSECRET&b=2 HTTP/1.1",
        "GET /x?sig=1.a.SECRETSECRET",
        "GET /x?access_token=SECRETSECRET",
        "GET /ahp?tkn=SECRETSECRET",
        "open http://127.0.0.1:1/#login=SECRETSECRET",
        "Authorization: Bearer SECRETSECRET",
        "{'authorization': 'Bearer SECRETSECRET'}",
        '{"authorization": "Basic SECRETSECRET"}',
        "bearer SECRETSECRET",
        "token=SECRETSECRET",
        "Cookie: SECRETSECRET",
        f"made {TOKEN} just now",
    ],
)
def test_secrets_are_masked_in_message_and_fields(form: str, message: str) -> None:
    for output in (line(form, message), line(form, "x", query=message), line(form, "x", query={"inner": message})):
        assert "SECRETSECRET" not in output
        assert "a" * 52 not in output


def test_secret_without_a_known_form_is_masked_after_it_was_registered() -> None:
    redactor = Redactor()
    redactor.hide("swordfish")
    redactor.hide("")
    assert "swordfish" not in line("text", "the word is swordfish", redactor)


def test_ordinary_words_are_left_alone() -> None:
    output = line("text", "turn ended", tokens=1234, path="/v1/tokens", code="not_found", ticket_count=3)
    assert "tokens=1234" in output and "/v1/tokens" in output and "code=not_found" in output


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    with restored_logging() as root:
        yield root


async def test_log_records_of_libraries_use_the_same_formatter(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    logging.getLogger("uvicorn.error").warning('%s - "%s"', "1.2.3.4", f"GET /?token={TOKEN}")
    logging.getLogger("uvicorn.error").info("Started server process")
    output = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [entry["event"] for entry in output] == ['1.2.3.4 - "GET /?token=***"']


async def test_whole_conversation_logs_its_lifecycle_and_no_secret(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("json", "DEBUG", stream)
    async with serving() as served:
        async with served.client() as client:
            await client.get("/v1/me", params={"token": TOKEN})
            made = (await client.post("/v1/tokens", json={"name": "x"})).json()
        async with served.client(None) as client:
            refused = await client.get("/v1/sessions", params={"token": TOKEN})
            assert refused.status_code == 401
    output = stream.getvalue()
    events = [json.loads(text) for text in output.splitlines()]
    assert {"refused"} <= {entry["event"] for entry in events}
    refusal = next(entry for entry in events if entry["event"] == "refused")
    assert (refusal["path"], refusal["status"], refusal["code"]) == ("/v1/sessions", 401, "no_credential")
    for secret in (served.admin, made["secret"], TOKEN):
        assert secret not in output


def logged_events(path: Path) -> set[str]:
    """The names of events that a file logs: the first argument of every call of a logger."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            owner, first = ast.unparse(node.func.value), node.args[0]
            logs = owner == "log" or (owner == "self" and node.func.attr == "_log")
            if logs and isinstance(first, ast.Constant):
                found.add(str(first.value))
    return found


def test_every_event_of_the_server_and_the_gate_is_in_the_reference() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "reference" / "logs.md").read_text()
    source = root / "src" / "fairlead"
    named = set().union(*(logged_events(path) for path in (*source.glob("auth/*.py"), *source.glob("server/*.py"))))
    assert {"connect", "disconnect", "refused"} <= named
    assert [event for event in sorted(named) if f"\n| {event} |" not in page] == []
