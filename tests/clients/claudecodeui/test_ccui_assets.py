"""Attachments over the whole gateway: uploads, downloads, limits, and files that reach the agent with a prompt."""

import asyncio
import base64
import json
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clients.claudecodeui.chat_harness import CHAT, ChatHarness
from clients.claudecodeui.signed_gateway import PASSWORD, SESSIONS, SignedGateway, frames_until
from clients.mylifedb.harness import open_gateway
from fairlead.model.auth import OWNER
from fairlead.uploads.api import FILE_BYTES, FILES
from fairlead.uploads.service import Uploads
from patience import PATIENCE

pytestmark = pytest.mark.process

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"
ASSETS = "/api/assets/files"


def form(*files: tuple[str, bytes, str], field: str = "files") -> list[tuple[str, tuple[str, bytes, str]]]:
    return [(field, file) for file in files]


async def upload(signed: SignedGateway, *files: tuple[str, bytes, str]) -> list[dict[str, Any]]:
    answer = await signed.http.post(ASSETS, files=form(*files))
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["attachments"]
    found: list[dict[str, Any]] = answer.json()["attachments"]
    assert len(found) == len(files), "the app wants as many as it sent"
    return found


def data_of(asset: dict[str, Any]) -> bytes:
    return Path(asset["path"]).read_bytes()


def stored(signed: SignedGateway) -> list[Path]:
    folder = Path(signed.gateway.data) / "uploads"
    return sorted(path for path in folder.rglob("*") if path.is_file())


async def refused(signed: SignedGateway, status: int, **given: Any) -> str:
    answer = await signed.http.post(ASSETS, **given)
    assert answer.status_code == status, answer.text
    assert stored(signed) == [], "nothing of it is kept"
    error = answer.json()["error"]
    assert isinstance(error, str), "the app shows it as it is"
    return error


async def test_uploaded_files_can_be_downloaded(signed: SignedGateway) -> None:
    picture, page = await upload(
        signed, ("Bild ä.PNG", PNG, "image/png"), ("evil.html", b"<script>alert(1)</script>", "text/html")
    )
    assert {**picture, "path": ""} == {"path": "", "name": "Bild ä.PNG", "mimeType": "image/png", "size": len(PNG)}
    assert data_of(picture) == PNG and picture["path"].endswith(".png")
    assert (page["name"], page["mimeType"], page["path"][-5:]) == ("evil.html", "text/html", ".html")
    assert set(stored(signed)) == {Path(picture["path"]), Path(page["path"])}
    for kind, asset, body, seen in (
        ("images", picture, PNG, "image/png"),
        ("files", picture, PNG, "image/png"),
        ("images", page, b"<script>alert(1)</script>", "application/octet-stream"),
        ("files", page, b"<script>alert(1)</script>", "application/octet-stream"),
    ):
        answer = await signed.http.get(f"/api/assets/{kind}/{Path(asset['path']).name}")
        assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, body, seen)
        assert answer.headers["content-disposition"].startswith("attachment; ")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_hostile_file_names_stay_inside_the_users_folder(signed: SignedGateway) -> None:
    names = ["../../../etc/cron.d/x", "..", "/etc/passwd", "a\\..\\b.txt", "%2e%2e%2fx", "x\n.png", "ä" * 300]
    found = await upload(signed, *[(name, b"x", "text/plain") for name in names])
    folder = Path(signed.gateway.data) / "uploads" / "ann"
    assert {Path(asset["path"]).parent for asset in found} == {folder}
    assert all("/" not in asset["name"] and "\\" not in asset["name"] for asset in found)
    assert [path.parent for path in stored(signed)] == [folder] * len(names)


async def test_limits_apply_while_an_upload_streams(signed: SignedGateway) -> None:
    assert (FILES, FILE_BYTES) == (10, 10 << 20), "what its app lets a person choose"
    small = ("x", b"x", "text/plain")
    assert "at most 10 files" in await refused(signed, 400, files=form(*[small] * 11))
    large = ("x", bytes(FILE_BYTES + 1), "text/plain")
    assert str(FILE_BYTES) in await refused(signed, 413, files=form(small, large))
    assert len(await upload(signed, *[small] * 10)) == 10


async def begun(signed: SignedGateway, length: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A form whose first file has begun, on a separate connection."""
    door = httpx2.URL(signed.door)
    reader, writer = await asyncio.open_connection(door.host, door.port)
    head = (
        f"POST {ASSETS} HTTP/1.1\r\nhost: {door.host}:{door.port}\r\nauthorization: Bearer {signed.token}\r\n"
        f"content-type: multipart/form-data; boundary=x\r\ncontent-length: {length}\r\n\r\n"
        '--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
    )
    writer.write(head.encode() + bytes(5000))
    return reader, writer


async def test_a_form_whose_declared_length_is_too_large_is_not_read(signed: SignedGateway) -> None:
    reader, writer = await begun(signed, 1 << 40)
    async with asyncio.timeout(PATIENCE):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ") and b'{"error":"The form has 1099511627776 bytes;' in answer
    assert stored(signed) == []


@pytest.mark.parametrize(
    "given",
    [
        {"json": {"files": "x"}},
        {"content": b"", "headers": {"content-type": "multipart/form-data"}},
        {"content": b"x", "headers": {"content-type": "multipart/form-data; boundary="}},
        {"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=" + "x" * 71}},
        {"content": b"not a form", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"--x\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b""},
        {"files": form(("x", b"x", "text/plain"), field="other")},
    ],
)
async def test_a_body_that_is_not_a_form_with_files_is_refused(signed: SignedGateway, given: Any) -> None:
    await refused(signed, 400, **given)


async def test_an_aborted_upload_leaves_no_file_behind(signed: SignedGateway) -> None:
    reader, writer = await begun(signed, 100_000)
    async with asyncio.timeout(PATIENCE):
        while not stored(signed):
            await asyncio.sleep(0.01)
        assert stored(signed)[0].name.startswith("."), "it is not there before it is whole"
        writer.close()
        while stored(signed):
            await asyncio.sleep(0.01)
    assert await reader.read() == b""


async def test_files_belong_to_the_user_who_uploaded_them(signed: SignedGateway) -> None:
    (mine,) = await upload(signed, ("mine.txt", b"mine", "text/plain"))
    await signed.add("bob")
    bob = {"authorization": f"Bearer {await signed.sign_in('bob')}"}
    for kind in ("files", "images"):
        answer = await signed.http.get(f"/api/assets/{kind}/{Path(mine['path']).name}", headers=bob)
        assert (answer.status_code, type(answer.json()["error"])) == (404, str)
    for name in ("..", "%2e%2e%2fann", "ann", "x.png", ".hidden"):
        assert (await signed.http.get(f"/api/assets/files/{name}")).status_code == 404
    assert (await signed.http.get(f"/api/assets/files/{Path(mine['path']).name}")).content == b"mine"


async def test_a_new_user_with_a_reused_name_does_not_get_the_old_users_files(signed: SignedGateway) -> None:
    (asset,) = await upload(signed, ("mine.txt", b"x", "text/plain"))
    assert (await signed.admin.delete("/v1/users/ann")).status_code == 200
    assert stored(signed) == []
    await signed.add("ann")
    signed.http.headers["authorization"] = f"Bearer {await signed.sign_in('ann')}"
    assert (await signed.http.get(f"/api/assets/files/{Path(asset['path']).name}")).status_code == 404


async def test_upload_needs_the_scope_chat_and_download_needs_a_token(signed: SignedGateway) -> None:
    await signed.add("viewer", PASSWORD, scopes=["view"])
    viewer = {"authorization": f"Bearer {await signed.sign_in('viewer')}"}
    answer = await signed.http.post(ASSETS, files=form(("x", b"x", "text/plain")), headers=viewer)
    assert answer.status_code == 403
    for method, path in (("POST", ASSETS), ("GET", f"{ASSETS}/x"), ("GET", "/api/assets/images/x")):
        answer = await signed.http.request(method, path, headers={"authorization": ""})
        assert answer.status_code == 401
    assert stored(signed) == []


# --- with a prompt


async def sent(signed: SignedGateway, session: str, content: str, attachments: Any) -> list[dict[str, Any]]:
    message = {"type": "chat.send", "sessionId": session, "content": content, "options": {"attachments": attachments}}
    async with signed.chat() as socket:
        await socket.send(json.dumps(message))
        return await frames_until(socket, lambda frame: frame["kind"] in ("complete", "protocol_error"))


async def test_a_prompt_and_its_files_are_one_history_row_in_the_apps_shape(signed: SignedGateway) -> None:
    given = await upload(
        signed,
        ("dot.png", PNG, "image/png"),
        ("drawn.svg", b"<svg/>", "image/svg+xml"),
        ("notes.md", b"# words", "text/markdown"),
        ("all.zip", b"PK\0", "application/zip"),
    )
    session = await signed.create("look")
    frames = await sent(signed, session, "SCRIPT:text seen", given)
    assert frames[-1]["success"] is True
    page = (await signed.http.get(f"{SESSIONS}/{session}/messages")).json()
    row = page["messages"][0]
    assert (row["role"], row["content"]) == ("user", "SCRIPT:text seen")
    data = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    assert row["images"] == [{**given[0], "data": data}, given[1]]
    assert row["files"] == given[2:]


async def test_files_alone_are_a_prompt(signed: SignedGateway) -> None:
    given = await upload(signed, ("dot.png", PNG, "image/png"))
    session = await signed.create("look")
    frames = await sent(signed, session, "", given)
    assert frames[-1]["kind"] == "complete"
    row = (await signed.http.get(f"{SESSIONS}/{session}/messages")).json()["messages"][0]
    assert (row["role"], row["content"], len(row["images"])) == ("user", "", 1)


async def test_the_agent_may_read_attached_files_but_nothing_else_in_the_data_folder(signed: SignedGateway) -> None:
    (given,) = await upload(signed, ("words.bin", b"secret words\0", "application/octet-stream"))
    session = await signed.create("look")
    frames = await sent(signed, session, f"SCRIPT:read {given['path']}", [given])
    (result,) = (frame for frame in frames if frame["kind"] == "tool_result")
    assert not any(frame["kind"] == "permission_request" for frame in frames)
    assert result["isError"] is False and "secret words" in result["content"]
    private = Path(signed.gateway.data) / "fairlead.lock"
    frames = await sent(signed, session, f"SCRIPT:read {private}", [])
    (result,) = (frame for frame in frames if frame["kind"] == "tool_result")
    assert result["isError"] is True and "closed to tools" in result["content"]


async def test_a_missing_attachment_is_an_error_and_starts_no_run(signed: SignedGateway) -> None:
    (given,) = await upload(signed, ("plan.pdf", b"%PDF-", "application/pdf"))
    os.unlink(given["path"])
    session = await signed.create("look")
    (*_, error) = await sent(signed, session, "SCRIPT:text seen", [given])
    assert (error["kind"], error["code"], error["sessionId"]) == ("protocol_error", "INTERNAL_ERROR", session)
    assert error["error"] == "plan.pdf is not there any more: attach it again."
    assert (await signed.http.get(f"{SESSIONS}/{session}/messages")).json()["total"] == 0


async def test_files_of_others_are_not_sent_with_a_prompt(signed: SignedGateway) -> None:
    await signed.add("bob")
    token, signed.http.headers["authorization"] = signed.token, f"Bearer {await signed.sign_in('bob')}"
    (theirs,) = await upload(signed, ("theirs.txt", b"theirs", "text/plain"))
    signed.http.headers["authorization"] = f"Bearer {token}"
    session = await signed.create("look")
    outside = [theirs, "/etc/passwd", {"path": str(Path(signed.gateway.data) / "secrets.key")}]
    frames = await sent(signed, session, "SCRIPT:text seen", outside)
    assert frames[-1]["kind"] == "complete"
    row = (await signed.http.get(f"{SESSIONS}/{session}/messages")).json()["messages"][0]
    assert row["content"] == "SCRIPT:text seen" and "images" not in row and "files" not in row


async def test_the_agent_receives_a_picture_as_an_image_block(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path / "uploads")
    name = f"{7:032x}.png"
    async with open_gateway(tmp_path, performers=uploads.handlers(), protocol=CHAT) as gateway:
        chats = ChatHarness(gateway, tmp_path)
        (uploads.folder / OWNER).mkdir(parents=True)
        (uploads.folder / OWNER / name).write_bytes(PNG)
        async with chats.peer() as peer:
            session = await chats.session()
            await peer.send(session, "what is it?", {"images": [{"path": name, "name": "dot.png"}]})
            agent = await gateway.core.kind.launched(1)
            await agent.prompted()
            picture, words, listed = json.loads(agent.written[-1].raw)["message"]["content"]
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
    assert picture == {"type": "image", "source": source}
    assert words == {"type": "text", "text": "what is it?"}
    assert listed["type"] == "text" and str(uploads.folder / OWNER / name) in listed["text"]
