"""The chain of the audit log: any changed, removed or reordered entry is found, also at the end."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.audit.api import AuditEntry, AuditHead
from fairlead.audit.chain import ChainCheck
from fairlead.audit.files import FOLDER, HEAD, AuditFiles, audit_files, export, read_head, verify
from fairlead.model.errors import Damaged


def entry(action: str, **data: object) -> AuditEntry:
    return AuditEntry(n=0, at=1_700_000_000_000, action=action, user="anna", data=data, prev="", hash="")


def write(data: Path, count: int, limit: int = 900) -> AuditFiles:
    data.mkdir(exist_ok=True)
    files = AuditFiles(data, limit, sync=False)
    files.open(0)
    for number in range(count):
        files.append([entry("prompt", message=f"m{number}")])
    files.close()
    return files


def problems_of(lines: list[bytes], head: AuditHead) -> list[str]:
    check = ChainCheck([head])
    for line in lines:
        check.feed(line)
    check.finish()
    return check.problems


@st.composite
def damages(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    """The lines after one act of an attacker that leaves the head alone."""
    at = draw(st.integers(0, len(lines) - 1))
    kind = draw(st.sampled_from(("change", "remove", "cut", "swap", "repeat", "empty", "replace")))
    if kind == "change":
        place = draw(st.integers(0, len(lines[at]) - 2))
        other = draw(st.integers(0, 255).filter(lambda byte: byte not in (lines[at][place], 10)))
        changed = lines[at][:place] + bytes([other]) + lines[at][place + 1 :]
        return [*lines[:at], changed, *lines[at + 1 :]]
    if kind == "remove":
        return [*lines[:at], *lines[at + 1 :]]
    if kind == "cut":
        return lines[:at]
    if kind == "empty":
        return [*lines[:at], b"\n", *lines[at:]]
    if kind == "repeat":
        return [*lines[: at + 1], *lines[at:]]
    if kind == "replace":
        # With a hash that fits the new content: only the next entry, or the head, knows the right one.
        fields = json.loads(lines[at])
        del fields["hash"]
        fields["user"] = "eve"
        body = json.dumps(fields, separators=(",", ":")).encode()
        sealed = body[:-1] + b',"hash":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'
        return [*lines[:at], sealed, *lines[at + 1 :]]
    other = draw(st.integers(0, len(lines) - 1).filter(lambda place: place != at))
    swapped = list(lines)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    return swapped


@given(st.data(), st.integers(2, 12))
def test_any_changed_removed_or_reordered_entry_is_found(data: st.DataObject, count: int) -> None:
    lines, head = chain(count)
    assert problems_of(lines, head) == []
    assert problems_of(data.draw(damages(lines)), head) != []


def chain(count: int) -> tuple[list[bytes], AuditHead]:
    from fairlead.audit.chain import FIRST, seal

    lines, head = [], FIRST
    for number in range(count):
        sealed, line = seal(
            AuditEntry(n=head.n + 1, at=number, action="prompt", data={"ü": "\n\u2028"}, prev=head.hash, hash="")
        )
        lines.append(line)
        head = AuditHead(sealed.n, sealed.hash)
    return lines, head


def test_a_hash_is_that_of_its_line_without_the_field() -> None:
    lines, head = chain(2)
    body, _, tail = lines[1].rstrip(b"\n").rpartition(b',"hash":"')
    assert tail == hashlib.sha256(body + b"}").hexdigest().encode() + b'"}'
    assert json.loads(lines[1])["prev"] == json.loads(lines[0])["hash"]
    assert head.hash.encode() in tail


# --- files


def test_the_chain_goes_on_from_file_to_file_and_over_a_restart(tmp_path: Path) -> None:
    write(tmp_path, 10)
    files = write(tmp_path, 10)
    assert len(audit_files(tmp_path / FOLDER)) > 2
    found = verify(tmp_path)
    assert (found.problems, found.entries, found.last) == ([], 20, files.head)
    assert [json.loads(line)["n"] for line in export(tmp_path)] == list(range(1, 21))
    assert [got.n for got in files.backwards(9)] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert [got.n for got in files.backwards(None)][:2] == [20, 19]


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_removed_file_is_found(tmp_path: Path, which: int) -> None:
    write(tmp_path, 20)
    audit_files(tmp_path / FOLDER)[which].unlink()
    assert verify(tmp_path).problems


def test_old_files_may_be_moved_and_are_verified_there(tmp_path: Path) -> None:
    write(tmp_path / "data", 20)
    old = tmp_path / "old"
    old.mkdir()
    moved = audit_files(tmp_path / "data" / FOLDER)[0]
    moved.rename(old / moved.name)
    assert "missing before entry" in verify(tmp_path / "data").problems[0]
    assert verify(tmp_path / "data", [old]).problems == []


def test_entries_that_were_looked_into_need_not_be_checked_again(tmp_path: Path) -> None:
    write(tmp_path, 20)
    first = audit_files(tmp_path / FOLDER)[0]
    count = len(first.read_bytes().splitlines())
    first.write_bytes(first.read_bytes().replace(b"anna", b"otto", 1))
    assert verify(tmp_path).problems
    assert verify(tmp_path, after=count).problems == []
    first.unlink()
    assert verify(tmp_path, after=count).problems == []
    assert verify(tmp_path, after=count - 1).problems


def test_a_rewritten_log_is_found_by_a_head_that_was_noted_elsewhere(tmp_path: Path) -> None:
    noted = write(tmp_path / "a", 5).head
    write(tmp_path / "a", 5)
    write(tmp_path / "forged", 10)
    assert verify(tmp_path / "a", heads=[noted]).problems == []
    forged = AuditHead(noted.n, "f" * 64)
    assert verify(tmp_path / "a", heads=[forged]).problems == [
        "000000000005.jsonl:1: entry 5 is not the one that was recorded under this number"
    ]
    # Also where the log's own head names the same entry.
    last = write(tmp_path / "a", 1).head
    assert verify(tmp_path / "a", heads=[last]).problems == []
    assert verify(tmp_path / "a", heads=[AuditHead(last.n, "f" * 64)]).problems
    assert "was cut off" in verify(tmp_path / "forged", heads=[AuditHead(11, "0" * 64)]).problems[0]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"n": "x"}'])
def test_a_missing_or_damaged_head_is_reported(tmp_path: Path, damage: bytes) -> None:
    write(tmp_path, 3)
    head = tmp_path / HEAD
    head.write_bytes(damage) if damage else head.unlink()
    assert verify(tmp_path).problems


# --- the start of a gateway


def test_an_unfinished_entry_of_a_killed_gateway_is_removed(tmp_path: Path) -> None:
    write(tmp_path, 3, limit=1 << 20)
    file = audit_files(tmp_path / FOLDER)[0]
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"n":4,"at":17')
    assert verify(tmp_path).problems == []
    write(tmp_path, 1, limit=1 << 20)
    assert file.read_bytes().startswith(whole + b'{"n":4,"at":1700000000000')
    assert verify(tmp_path).problems == []


def test_entries_whose_head_was_not_written_are_kept(tmp_path: Path) -> None:
    write(tmp_path, 3)
    head = (tmp_path / HEAD).read_bytes()
    write(tmp_path, 2)
    (tmp_path / HEAD).write_bytes(head)
    write(tmp_path, 1)
    assert verify(tmp_path).problems == []
    assert verify(tmp_path).entries == 6


@pytest.mark.parametrize("damage", ["cut", "change", "head", "no head", "all"])
def test_a_gateway_starts_on_a_damaged_log_and_says_so_in_it_for_good(tmp_path: Path, damage: str) -> None:
    write(tmp_path, 5, limit=1 << 20)
    file = audit_files(tmp_path / FOLDER)[0]
    lines = file.read_bytes().splitlines(keepends=True)
    if damage == "cut":
        file.write_bytes(b"".join(lines[:-2]))
    elif damage == "change":
        file.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"anna", b"otto")]))
    elif damage == "all":
        file.unlink()
    elif damage == "head":
        (tmp_path / HEAD).write_bytes(b"{")
    else:
        (tmp_path / HEAD).unlink()
    files = write(tmp_path, 1, limit=1 << 20)
    actions = [got.action for got in files.backwards(None)]
    assert actions[:2] == ["prompt", "audit.broken"]
    assert files.head.n == 7
    # The entries themselves are untouched where only the head was.
    assert (verify(tmp_path).problems == []) == (damage in ("head", "no head"))


def test_a_head_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    (tmp_path / HEAD).write_bytes(b"?")
    with pytest.raises(Damaged, match=r"audit\.head"):
        read_head(tmp_path)
