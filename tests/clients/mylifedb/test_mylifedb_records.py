"""Records as they are shown, rule by rule: the seed's own examples from a transcript, and the same over the wire."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.claude.golden_claude import raw
from clients.mylifedb.view_offline import SESSION, ViewRecorder
from fairlead.clients.mylifedb import counting, records, streaming
from fairlead.clients.mylifedb.fold import STREAM, MyLifeDbMemory, MyLifeDbReducer, read_memory
from fairlead.clients.mylifedb.pages import PAGE_BYTES, PAGE_ROWS, Pages
from fairlead.clients.mylifedb.records import complete_wire_record
from fairlead.clients.mylifedb.streaming import StreamState
from fairlead.clients.mylifedb.strip_payloads import stripped
from fairlead.clients.mylifedb.variants import MyLifeDbEncoder
from fairlead.model.store import Entry, Origin
from fairlead.model.views import NewRow, Transient
from fairlead_testing.mylifedb_client import build_tree
from fairlead_testing.replay import unframed
from golden.cases import case_names, read_catchup, read_lines, read_log

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def live(case: str) -> list[Any]:
    return read_lines("mylifedb", case, "live.jsonl")


def wire(case: str, kind: str, number: int = 0) -> dict[str, Any]:
    found = [frame for frame in live(case) if frame["type"] == kind]
    frame: dict[str, Any] = found[number]
    return frame


@pytest.mark.rules("S000-012", "S000-019", "S000-046", "S000-047", "S000-053", "S000-077", "S000-087", "S000-088")
@pytest.mark.rules("S000-089", "S000-090", "S000-091", "S000-075", "S000-076", "S000-081", "S000-082", "S000-083")
@pytest.mark.rules("S000-084", "S000-085", "S000-092", "S000-093", "S000-094", "S000-134", "S000-067", "S000-149")
def test_transcript_rows_are_sent_byte_for_byte_and_in_order() -> None:
    """Covers the seed's own examples of each kind of record."""
    seed = read_log("mylifedb", "seed-transcript")
    showing = ViewRecorder(MyLifeDbEncoder()).replay(seed)
    rows = [entry.raw for entry in seed.entries if entry.raw is not None]
    assert len(rows) == 7 and [payload for _, payload in showing.sent] == rows
    assert showing.history() == [json.loads(row) for row in rows]


@pytest.mark.rules("S000-047", "S000-048", "S000-049", "S000-050", "S000-051", "S000-052")
def test_the_echo_of_a_prompt_has_the_form_of_the_seed() -> None:
    echo = wire("send-and-tool", "user")
    assert list(echo) == ["type", "uuid", "parentUuid", "timestamp", "sessionId", "message"]
    assert UUID.fullmatch(echo["uuid"]) and ISO.fullmatch(echo["timestamp"])
    assert (echo["parentUuid"], echo["message"]) == (None, {"role": "user", "content": "list files"})


@pytest.mark.rules("S000-053", "S000-054", "S000-055", "S000-056", "S000-057", "S000-058", "S000-059", "S000-060")
@pytest.mark.rules("S000-061", "S000-062", "S000-063", "S000-064", "S000-065", "S000-066", "S000-132", "S000-133")
@pytest.mark.rules("S000-136", "S000-137", "S000-138", "S000-139")
def test_an_answer_from_the_wire_gets_the_fields_of_the_transcript() -> None:
    prompt = wire("send-and-tool", "user")
    thinking, call, text = (wire("send-and-tool", "assistant", number) for number in range(3))
    for answer in (thinking, call, text):
        assert UUID.fullmatch(answer["uuid"]) and ISO.fullmatch(answer["timestamp"])
        message = answer["message"]
        assert (message["role"], message["model"], message["id"][:4]) == ("assistant", "opus", "msg_")
        assert set(message["usage"]) >= {"input_tokens", "cache_read_input_tokens", "output_tokens"}
        assert answer["sessionId"] == SESSION
    assert thinking["message"]["content"] == [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
    assert text["message"]["content"] == [{"type": "text", "text": "There is a.txt."}]
    (block,) = call["message"]["content"]
    assert block == {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    assert (thinking["parentUuid"], call["parentUuid"]) == (prompt["uuid"], thinking["uuid"])
    assert call["requestId"] == "req_1" and "request_id" not in call


@pytest.mark.rules("S000-068", "S000-069", "S000-070", "S000-071", "S000-072", "S000-073", "S000-074", "S000-140")
@pytest.mark.rules("S000-141", "S000-142", "S000-144", "S000-145")
def test_a_result_has_its_call_as_parent_and_the_answer_has_the_result() -> None:
    result = wire("send-and-tool", "user", 1)
    assert UUID.fullmatch(result["uuid"]) and ISO.fullmatch(result["timestamp"])
    assert result["message"]["role"] == "user"
    assert result["message"]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}]
    assert result["parentUuid"] == wire("send-and-tool", "assistant", 1)["uuid"]
    assert wire("send-and-tool", "assistant", 2)["parentUuid"] == result["uuid"]
    assert result["toolUseResult"] == {"stdout": "a.txt", "stderr": "", "interrupted": False}
    assert "tool_use_result" not in result
    first, second = (wire("parallel-tools", "user", number) for number in (1, 2))
    calls = [wire("parallel-tools", "assistant", number)["uuid"] for number in (0, 1)]
    assert [first["parentUuid"], second["parentUuid"]] == calls
    assert ("is_error" in first["message"]["content"][0], second["message"]["content"][0]["is_error"]) == (False, True)


@pytest.mark.rules("S000-186", "S000-187", "S000-188", "S000-189")
@pytest.mark.parametrize("when", ["live", "catchup"])
def test_the_sent_records_form_the_tree_of_the_conversation(when: str) -> None:
    frames = live("send-and-tool") if when == "live" else read_catchup("mylifedb", "send-and-tool")
    sent = [frame for frame in frames if frame["type"] in ("user", "assistant")]
    (node,) = build_tree(sent)
    kinds = []
    while True:
        content = node.row["message"]["content"]
        kinds.append("prompt" if isinstance(content, str) else content[0]["type"])
        if not node.children:
            break
        (node,) = node.children
    assert kinds == ["prompt", "thinking", "tool_use", "tool_result", "text"], "each hangs on the one before it"


@pytest.mark.rules("S000-131", "S000-135", "S000-143")
def test_a_message_may_mix_blocks_of_any_kind() -> None:
    mixed = {"type": "thinking", "thinking": "no signature"}, {"type": "text", "text": "ü"}, {"type": "hologram"}
    images = [{"type": "text", "text": "a"}, {"type": "image", "source": {}}]
    for content in (list(mixed), [{"type": "tool_result", "tool_use_id": "t", "content": images}]):
        row = {"type": "assistant", "uuid": "a", "message": {"role": "assistant", "content": content}}
        assert ViewRecorder().run([{"transcript": row}]).history() == [row]


@pytest.mark.rules("S000-078", "S000-079", "S000-080")
def test_progress_is_forwarded_unchanged() -> None:
    (progress,) = [frame for frame in read_catchup("mylifedb", "seed-transcript") if frame["type"] == "progress"]
    assert UUID.fullmatch(progress["uuid"]) and UUID.fullmatch(progress["parentUuid"])
    assert ISO.fullmatch(progress["timestamp"])


@pytest.mark.rules("S000-106", "S000-107", "S000-108", "S000-109", "S000-110", "S000-111", "S000-112", "S000-113")
@pytest.mark.rules("S000-114", "S000-115", "S000-116", "S000-117", "S000-118", "S000-125")
def test_stream_events_are_forwarded_as_the_agent_sends_them() -> None:
    records = [json.loads(entry.raw) for entry in read_log("mylifedb", "streaming").entries if entry.raw is not None]
    sent = [record for record in records if record["type"] == "stream_event"]
    received = [frame for frame in live("streaming") if frame["type"] == "stream_event"]
    assert received == sent
    order = [frame["event"]["type"] for frame in received]
    assert (order[0], order[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert order.count("content_block_start") == order.count("content_block_stop") == 3
    deltas = [frame["event"]["delta"] for frame in received if frame["event"]["type"] == "content_block_delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == "Here is some."
    assert "".join(delta.get("thinking", "") for delta in deltas) == "Hm"
    assert json.loads("".join(delta.get("partial_json", "") for delta in deltas)) == {"command": "ls"}
    kinds = [frame["type"] for frame in live("streaming")]
    blocks = [n for n, kind in enumerate(kinds) if kind == "assistant"]
    assert all(kinds[n - 1] == kinds[n + 1] == "stream_event" for n in blocks), "a record stands in its stream"


@pytest.mark.parametrize("case", case_names("mylifedb"))
@pytest.mark.rules("S000-005", "S000-006")
def test_each_frame_is_one_json_value_and_each_row_one_frame(case: str) -> None:
    showing = ViewRecorder().replay(read_log("mylifedb", case))
    for _, payload in showing.sent:
        assert isinstance(json.loads(payload.decode()), dict)
    assert len(showing.history()) == len(showing.rows)


@pytest.mark.rules("S000-008", "S000-043")
@given(st.text())
def test_text_of_any_kind_arrives_unchanged(text: str) -> None:
    message = {"role": "user", "content": text}
    line = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", "uuid": "u1"}
    for variant in (MyLifeDbEncoder(), MyLifeDbEncoder(packed=True)):
        # As the gateway writes it to the agent: half of a surrogate pair has no UTF-8 form and never gets here.
        data = msgspec.json.encode(line) if not _has_surrogates(text) else b""
        if data:
            (echo,) = ViewRecorder(variant).run([{"gateway": msgspec.json.decode(data)}]).history()
            assert echo["message"]["content"] == text


def _has_surrogates(text: str) -> bool:
    return any(0xD800 <= ord(character) < 0xE000 for character in text)


def test_values_keep_their_spelling_and_order() -> None:
    frame = wire("unknown-records", "from_the_future")
    assert frame["a"] == [1, 2.5, "ü", 123456789012345678901234567890]
    line = b'{"type":"assistant","uuid":"a","n":1.10,"message":{"z":1,"a":2,"content":[]}}'
    fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    data = complete_wire_record(fields, parent=None, at=0, session=SESSION)
    assert data.startswith(line[:-1]), "what the agent wrote is not rewritten"


def test_big_numbers_do_not_stop_messagepack() -> None:
    row = {"type": "x", "uuid": "a", "big": 123456789012345678901234567890}
    assert ViewRecorder(MyLifeDbEncoder(packed=True)).run([{"transcript": row}]).history()[0]["big"] == pytest.approx(
        1.2345e29, rel=1e-3
    )


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"[1]", b"", b'{"a":', b"null"])
def test_a_line_that_is_not_a_record_is_not_shown(bad: bytes) -> None:
    fold = MyLifeDbReducer(SESSION)
    event = b'{"type":"record","id":"x/0/record","record":"garbage","known":false}'
    assert list(fold.step(Entry(1, 0, 1, "record", event, "agent", bad))) == []


HALF = b'{"type":"user","uuid":"u1","message":{"role":"user","content":"cut \\ud83d"},"toolUseResult":{"a":"\\ud83d"}}'
DEEP = b'{"type":"user","uuid":"u2","message":' + b"[" * 5000 + b"]" * 5000 + b"}"
EVENT = b'{"type":"record","id":"x/0/record","record":"user"}'


@pytest.mark.parametrize(
    "variant", [MyLifeDbEncoder(), MyLifeDbEncoder(packed=True), MyLifeDbEncoder(strip=True)], ids=repr
)
@pytest.mark.parametrize("origin", ["agent", "transcript", "gateway"])
def test_half_an_emoji_loses_no_record(origin: Origin, variant: MyLifeDbEncoder) -> None:
    """A tool's output may be cut in the middle of an emoji; JavaScript reads the result, other parsers do not."""
    fold = MyLifeDbReducer(SESSION)
    (row,) = fold.step(Entry(1, 0, 1, "record", EVENT, origin, HALF))
    assert isinstance(row, NewRow) and row.key == "u1"
    (payload,) = unframed(variant.encode(SESSION, Entry(1, 0, 1, "row", row.data)))
    frame = msgspec.msgpack.decode(payload) if variant.packed else json.loads(payload)
    assert frame["message"]["content"].startswith("cut ")
    if origin == "transcript":
        assert row.data == HALF, "byte for byte"


@pytest.mark.parametrize("origin", ["agent", "transcript"])
def test_a_record_nested_too_deeply_stops_nothing(origin: Origin) -> None:
    fold = MyLifeDbReducer(SESSION)
    for made in fold.step(Entry(1, 0, 1, "record", EVENT, origin, DEEP)):
        assert isinstance(made, NewRow)
        for variant in (MyLifeDbEncoder(), MyLifeDbEncoder(packed=True), MyLifeDbEncoder(strip=True)):
            variant.encode(SESSION, Entry(1, 0, 1, "row", made.data))


def test_stray_bytes_become_text() -> None:
    fold = MyLifeDbReducer(SESSION)
    (row,) = fold.step(Entry(1, 0, 1, "record", EVENT, "transcript", b'{"type":"x","uuid":"u","a":"\xff"}'))
    assert isinstance(row, NewRow) and json.loads(row.data.decode())["a"] == "\ufffd"


def test_the_record_of_a_delta_is_decoded_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry's kind says that it is a stream event: no projection decodes it to find that out."""
    monkeypatch.setattr(records, "fields_of", lambda data: pytest.fail("decoded again"))
    monkeypatch.setattr(counting, "_is_message", lambda data: pytest.fail("decoded again"))
    delta = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}'
    entry = Entry(1, 0, 1, "text.delta", b"", "agent", b'{"type":"stream_event","event":%s}' % delta)
    fold = MyLifeDbReducer(SESSION)
    assert list(fold.step(entry)) == [Transient(STREAM + (entry.raw or b""))]
    assert [piece.text for piece in read_memory(fold.snapshot()).stream.pieces] == ["hi"]
    assert counting.CountReducer(SESSION).step(entry) == ()


def test_a_memory_that_an_older_version_stored_is_still_loaded() -> None:
    stored = {**msgspec.to_builtins(MyLifeDbMemory(ended=7, shown_state="working")), "ends": 3}
    memory = read_memory(msgspec.msgpack.encode(stored))
    assert (memory.ended, memory.shown_state) == (7, "working")


# --- pages


def test_a_page_is_sealed_when_it_is_full() -> None:
    pages = Pages()
    for _ in range(PAGE_ROWS - 1):
        pages.add(10)
        pages.seal()
    assert (pages.total, pages.lowest_burst) == (1, 0)
    pages.add(10)
    pages.seal()
    assert (pages.total, pages.sealed, pages.ordinal_range(1)) == (2, [PAGE_ROWS], (PAGE_ROWS, PAGE_ROWS))
    pages.add(PAGE_BYTES)
    pages.seal()
    assert (pages.total, pages.ordinal_range(1), pages.lowest_burst) == (3, (PAGE_ROWS, PAGE_ROWS + 1), 1)
    assert pages.ordinal_range(3) is None and pages.ordinal_range(-1) is None


def test_no_page_is_sealed_while_a_message_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.clients.mylifedb.pages.PAGE_ROWS", 3)
    showing = ViewRecorder()
    sealed = []
    for entry in read_log("mylifedb", "streaming").entries:
        showing.log(entry)
        memory = showing.fold._memory
        sealed.append((list(memory.pages.sealed), bool(memory.stream.open)))
    at = next(n for n, (pages, _) in enumerate(sealed) if pages)
    assert sealed[at - 1][1] and not sealed[at][1], "with its message_stop"
    assert sealed[at][0] == [5]


@given(st.lists(st.integers(1, PAGE_BYTES), max_size=40))
def test_pages_are_contiguous(sizes: list[int]) -> None:
    pages = Pages()
    for size in sizes:
        pages.add(size)
        pages.seal()
    stretches = [pages.ordinal_range(number) for number in range(pages.total)]
    assert [stretch[0] for stretch in stretches if stretch] == [0, *pages.sealed]
    assert [stretch[1] for stretch in stretches if stretch] == [*pages.sealed, len(sizes)]


# --- the running message


def test_a_message_that_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MOST", 300)
    stream = StreamState()
    for number in range(20):
        event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"{number} " * 9}}
        stream.add(msgspec.json.encode({"type": "stream_event", "event": event}))
    assert stream.frames() == []
    stream.add(b'{"type":"stream_event","event":{"type":"message_stop"}}')
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "new"}}
    stream.add(msgspec.json.encode({"type": "stream_event", "event": event}))
    assert len(stream.frames()) == 1


# --- stripping


def read(result: Any, content: Any = "1\tone\n2\ttwo", kind: str = "user") -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "t", "content": content}
    return {"type": kind, "uuid": "u", "message": {"role": "user", "content": [block]}, "toolUseResult": result}


def test_a_files_text_is_left_out_of_pages() -> None:
    given = read({"type": "text", "file": {"filePath": "/a", "content": "one\ntwo"}})
    record = json.loads(stripped(raw(given)))
    assert record["toolUseResult"] == {"type": "text", "file": {"filePath": "/a", "numLines": 2, "totalLines": 2}}
    assert record["message"]["content"][0]["content"] == ""
    kept = read({"type": "text", "file": {"filePath": "/a", "content": "one", "numLines": 7, "totalLines": 9}})
    assert json.loads(stripped(raw(kept)))["toolUseResult"]["file"]["totalLines"] == 9


def test_an_images_bytes_are_left_out_of_pages() -> None:
    record = json.loads(stripped(raw(read({"type": "image", "file": {"base64": "AAAA", "type": "image/png"}}))))
    assert record["toolUseResult"] == {"type": "image", "file": {"type": "image/png"}}


@pytest.mark.parametrize(
    "record",
    [
        read({"stdout": "x"}),
        read("Error: none"),
        read({"type": "text", "file": "none"}),
        read({"type": "other", "file": {"content": "x"}}),
        read({"type": "text", "file": {"content": "x"}}, kind="assistant"),
        {"type": "user", "uuid": "u"},
    ],
)
def test_everything_else_is_left_as_it_is(record: dict[str, Any]) -> None:
    assert stripped(raw(record)) == raw(record)


def test_live_results_are_stripped_like_those_of_the_transcript() -> None:
    result = read({"type": "text", "file": {"filePath": "/a", "content": "one"}})
    result["tool_use_result"] = result.pop("toolUseResult")
    (frame,) = ViewRecorder(MyLifeDbEncoder(strip=True)).run([{"agent": result}]).live()
    assert "content" not in frame["toolUseResult"]["file"]


# --- copies


def test_a_copy_is_recognised_after_many_other_records() -> None:
    answer = {"type": "assistant", "uuid": "a1", "message": {"id": "m", "role": "assistant", "content": []}}
    status = {"type": "system", "subtype": "status", "status": "requesting"}
    aside = [{"agent": {**status, "uuid": f"s{number}"}} for number in range(9000)]
    showing = ViewRecorder().run([{"agent": answer}, *aside])
    rows = len(showing.rows)
    showing.add({"copy": {**answer, "cwd": "/srv"}})
    assert len(showing.rows) == rows
    assert json.loads(showing.rows[0].data)["cwd"] == "/srv"


# --- anything

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMED = st.sampled_from(
    [
        "type",
        "uuid",
        "parentUuid",
        "session_id",
        "parent_tool_use_id",
        "message",
        "event",
        "tool_use_result",
        "subtype",
        "toolUseResult",
    ]
)
KINDS = st.sampled_from(["user", "assistant", "system", "result", "stream_event", "progress", "control_request", "x"])


@given(
    st.lists(
        st.tuples(st.dictionaries(NAMED, JSON), KINDS, st.sampled_from(["agent", "gateway", "transcript"])), max_size=6
    )
)
def test_no_record_stops_the_view(given: list[tuple[dict[str, Any], str, Origin]]) -> None:
    fold = MyLifeDbReducer(SESSION)
    for number, (fields, kind, origin) in enumerate(given, 1):
        line = json.dumps({"type": kind, **fields}).encode()
        for made in fold.step(Entry(number, number - 1, number, "record", EVENT, origin, line)):
            for variant in (MyLifeDbEncoder(state=True), MyLifeDbEncoder(packed=True), MyLifeDbEncoder(strip=True)):
                if isinstance(made, NewRow):
                    assert isinstance(json.loads(made.data), dict)
                    variant.encode(SESSION, Entry(1, 0, 1, "row", made.data))
        again = MyLifeDbReducer(SESSION)
        again.restore(fold.snapshot())
        assert again.snapshot() == fold.snapshot()
        fold.running(fresh=False)
