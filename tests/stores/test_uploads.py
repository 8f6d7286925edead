"""The upload store: incoming files, which of them are kept, and which users get them."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from fairlead.model.auth import Identity
from fairlead.model.content import ImageBlock
from fairlead.model.errors import NotAllowed, NotFound, Stale, TooMany, Unavailable
from fairlead.model.web.requests import Response, ServiceCall
from fairlead.uploads.api import (
    BLOCK_BYTES,
    FILE_BYTES,
    NAME,
    ClaimedUpload,
    ClaimUploads,
    Intake,
    OpenIntake,
    ReadUpload,
    Upload,
)
from fairlead.uploads.service import AT_ONCE, Uploads

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"
ANN = Identity("c1", "ann", "ann's phone", frozenset({"chat"}))
BOB = Identity("c2", "bob", "bob's phone", frozenset({"chat"}))


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads")


async def do(uploads: Uploads, action: ServiceCall[Any], who: Identity = ANN) -> Any:
    return await uploads.handlers()[type(action)](who, action)


async def opened(uploads: Uploads, who: Identity = ANN) -> Intake:
    intake: Intake = await do(uploads, OpenIntake(), who)
    return intake


async def kept(uploads: Uploads, *files: tuple[str, bytes], who: Identity = ANN) -> tuple[Upload, ...]:
    intake = await opened(uploads, who)
    for name, data in files:
        intake.begin(name, "image/png")
        intake.write(data[:3])
        intake.write(data[3:])
    return await intake.keep()


def files(uploads: Uploads) -> list[str]:
    return sorted(path.name for path in uploads.folder.rglob("*") if path.is_file())


def data_of(upload: Upload) -> bytes:
    return Path(upload.path).read_bytes()


def is_there(upload: Upload) -> bool:
    return Path(upload.path).exists()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def put_there(path: Path, what: str, target: Path) -> None:
    """Replace a file by something that is not a plain file."""
    path.unlink()
    if what == "link":
        path.symlink_to(target)
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


async def test_a_file_is_stored_under_a_generated_name_for_its_owner_only(uploads: Uploads) -> None:
    (one, two) = await kept(uploads, ("a dot.PNG", PNG), ("notes", b"words"))
    assert (one.name, one.mime, one.size) == ("a dot.PNG", "image/png", len(PNG))
    path = Path(one.path)
    assert path.parent == uploads.folder / "ann" and NAME.fullmatch(path.name) and path.suffix == ".png"
    assert Path(two.path).suffix == "" and data_of(two) == b"words"
    assert mode_of(path) == 0o600
    for folder in (path.parent, uploads.folder):
        assert mode_of(folder) == 0o700


@pytest.mark.parametrize(
    ("given", "shown", "end"),
    [
        ("../../etc/passwd", "passwd", ""),
        ("C:\\Users\\me\\x.docx", "x.docx", ".docx"),
        ("/abs/olute.Txt", "olute.Txt", ".txt"),
        ("..", "..", ""),
        ("a.png/", "", ""),
        ("evil.sh\0.png", "evil.sh.png", ".png"),
        ("x.p\x1b[31mng", "x.p[31mng", ""),
        ("x.überlang", "x.überlang", ""),
        ("x.0123456789a", "x.0123456789a", ""),
        ("." + "x" * 300 + ".pdf", ("x" * 300 + ".pdf")[-200:], ".pdf"),
        ("line\nbreak.gif", "linebreak.gif", ".gif"),
        ("\u202efdp.exe", "fdp.exe", ".exe"),
        ("", "", ""),
    ],
)
async def test_hostile_names_are_sanitized_and_never_become_a_path(
    uploads: Uploads, given: str, shown: str, end: str
) -> None:
    (upload,) = await kept(uploads, (given, b"x"))
    path = Path(upload.path)
    assert path.parent == uploads.folder / "ann" and path.suffix == end and NAME.fullmatch(path.name)
    assert upload.name == (shown or path.name)


@pytest.mark.parametrize("mime", ["text/html\r\nx: y", "", "x", "a/b/c", "text/" + "x" * 99, "te xt/plain"])
async def test_an_invalid_mime_type_becomes_octet_stream(uploads: Uploads, mime: str) -> None:
    intake = await opened(uploads)
    intake.begin("x", mime)
    (upload,) = await intake.keep()
    assert (upload.mime, upload.size) == ("application/octet-stream", 0)


async def test_a_dropped_form_leaves_nothing(uploads: Uploads) -> None:
    intake = await opened(uploads)
    for name in ("one", "two"):
        intake.begin(name, "text/plain")
        intake.write(b"words")
    assert all(name.startswith(".") for name in files(uploads)), "nobody finds them before they are whole"
    intake.drop()
    assert files(uploads) == []
    intake.drop()


async def test_a_drop_after_a_keep_removes_nothing(uploads: Uploads) -> None:
    intake = await opened(uploads)
    intake.begin("one", "text/plain")
    await intake.keep()
    intake.drop()
    assert len(files(uploads)) == 1


async def test_partial_files_of_an_earlier_gateway_are_removed(uploads: Uploads) -> None:
    (whole,) = await kept(uploads, ("whole", b"x"))
    half = await opened(uploads)
    half.begin("half", "text/plain")
    again = Uploads(uploads.folder)
    await again.start()
    assert files(again) == [Path(whole.path).name]
    half.drop()
    await Uploads(uploads.folder / "none").start()


async def test_open_forms_per_user_are_limited(uploads: Uploads) -> None:
    forms = [await opened(uploads) for _ in range(AT_ONCE)]
    with pytest.raises(TooMany):
        await opened(uploads)
    await opened(uploads, BOB)
    forms[0].drop()
    (await opened(uploads)).drop()
    forms[1].begin("x", "text/plain")
    await forms[1].keep()
    (await opened(uploads)).drop()


@pytest.mark.parametrize("limit", [{"most_files": 3}, {"most_bytes": 30}])
async def test_the_oldest_files_are_removed_when_there_are_too_many(tmp_path: Path, limit: dict[str, int]) -> None:
    store = Uploads(tmp_path / "uploads", **limit)
    (others,) = await kept(store, ("bob's", bytes(10)), who=BOB)
    made: list[Upload] = []
    for number in range(5):
        (upload,) = await kept(store, (f"{number}", bytes(10)))
        os.utime(upload.path, (number, number))
        made.append(upload)
    left = [upload.name for upload in made if is_there(upload)]
    assert left == ["2", "3", "4"]
    assert is_there(others), "each user has their own room"


async def test_files_that_just_arrived_stay_whatever_their_size(tmp_path: Path) -> None:
    store = Uploads(tmp_path / "uploads", most_files=1, most_bytes=1)
    made = await kept(store, ("a", bytes(5)), ("b", bytes(5)))
    assert all(is_there(upload) for upload in made)


async def test_a_failed_write_is_reported(uploads: Uploads) -> None:
    uploads.folder.write_bytes(b"in the way")
    intake = await opened(uploads)
    with pytest.raises(Unavailable, match="cannot be kept"):
        intake.begin("x", "text/plain")
    intake.drop()


# --- reading


async def taken(uploads: Uploads, *given: Upload, who: Identity = ANN) -> tuple[ClaimedUpload, ...]:
    found: tuple[ClaimedUpload, ...] = await do(uploads, ClaimUploads(given), who)
    return found


async def test_a_message_claims_its_own_files(uploads: Uploads) -> None:
    picture, archive = await kept(uploads, ("a.png", PNG), ("b.zip", b"PK\0\0"))
    bare = Upload(Path(archive.path).name)
    one, two = await taken(uploads, picture, bare)
    assert one.upload == picture and isinstance(one.block, ImageBlock)
    assert two.upload == Upload(archive.path, bare.path, "", 4) and two.block is None


async def test_another_users_files_are_left_out(uploads: Uploads, caplog: pytest.LogCaptureFixture) -> None:
    (theirs,) = await kept(uploads, ("a.png", PNG), who=BOB)
    assert await taken(uploads, theirs, Upload("/etc/passwd")) == ()
    (record,) = (record for record in caplog.records if record.msg == "attachments left out")
    assert record.__dict__["files"] == 2
    with pytest.raises(Stale):
        await taken(uploads, Upload(Path(theirs.path).name))


async def test_a_missing_file_is_named_in_the_error(uploads: Uploads) -> None:
    (upload,) = await kept(uploads, ("plan.pdf", b"%PDF-"))
    os.unlink(upload.path)
    with pytest.raises(Stale, match=r"plan\.pdf is not there any more"):
        await taken(uploads, upload)


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
async def test_links_pipes_and_folders_are_not_uploads(uploads: Uploads, tmp_path: Path, what: str) -> None:
    (upload,) = await kept(uploads, ("a", b"x"))
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    put_there(Path(upload.path), what, secret)
    with pytest.raises(Stale):
        await taken(uploads, upload)
    with pytest.raises(NotFound):
        await do(uploads, ReadUpload(Path(upload.path).name))


async def test_one_message_contains_at_most_the_bytes_that_the_api_accepts(uploads: Uploads) -> None:
    size = 3 << 20
    many = await kept(uploads, *[(f"{number}.png", PNG.ljust(size, b"x")) for number in range(7)])
    found = await taken(uploads, *many)
    assert [each.block is not None for each in found] == [True] * (BLOCK_BYTES // size) + [False] * 2


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.png", PNG, "image/png"),
        ("a.svg", b"<svg onload='alert(1)'/>", "application/octet-stream"),
        ("a.html", b"<script>alert(1)</script>", "application/octet-stream"),
        ("a.png", b"<script>alert(1)</script>", "application/octet-stream"),
        ("a.pdf", b"%PDF-1.7", "application/octet-stream"),
    ],
)
async def test_a_file_is_returned_as_an_attachment(uploads: Uploads, name: str, data: bytes, kind: str) -> None:
    (upload,) = await kept(uploads, (name, data))
    stored = Path(upload.path).name
    answer: Response = await do(uploads, ReadUpload(stored))
    assert (answer.body, answer.content_type) == (data, kind)
    assert dict(answer.headers)["content-disposition"] == f'attachment; filename="{stored}"'
    with pytest.raises(NotFound):
        await do(uploads, ReadUpload(stored), BOB)


@pytest.mark.parametrize("name", ["", "..", "ann", ".x", "../ann/x", f"{0:032x}", f"{0:032x}.png/", f"{0:032X}.png"])
async def test_an_invalid_name_is_not_found(uploads: Uploads, name: str) -> None:
    with pytest.raises(NotFound):
        await do(uploads, ReadUpload(name))


@pytest.mark.parametrize("user", ["", "..", "../ann", "Ann", ".ann", "a/b"])
async def test_an_invalid_user_is_not_allowed(uploads: Uploads, user: str) -> None:
    invalid_user = Identity("c", user, "", frozenset({"chat"}))
    for action in (OpenIntake(), ClaimUploads((Upload("x"),)), ReadUpload(f"{0:032x}")):
        with pytest.raises(NotAllowed):
            await do(uploads, action, invalid_user)


async def test_concurrent_forms_do_not_interfere(uploads: Uploads) -> None:
    made = await asyncio.gather(*(kept(uploads, (f"{n}", f"{n}".encode() * 9)) for n in range(AT_ONCE)))
    assert [data_of(upload) for (upload,) in made] == [f"{n}".encode() * 9 for n in range(AT_ONCE)]
    assert all((upload.size or 0) <= FILE_BYTES for (upload,) in made)
