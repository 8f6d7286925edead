"""Sessions that another program wrote, in an editor: they are listed, their history is loaded, and they go on live."""

from pathlib import Path

import pytest

from clients.acp.acp_harness import EVERYTHING, editor_at
from clients.mylifedb.test_mylifedb_transcripts import SESSION, Home, gateway, row


@pytest.mark.process
async def test_a_session_of_a_transcript_is_listed_loaded_and_followed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write(row(1), row(2))
    async with gateway(home, tmp_path) as served, editor_at(served.url, served.token) as editor:
        await editor.initialize(EVERYTHING)
        (listed,) = (await editor.call("session/list"))["sessions"]
        assert (listed["sessionId"], listed["cwd"]) == (SESSION, "/srv")
        assert (await editor.call("session/list", cwd="/srv"))["sessions"] == [listed]
        await editor.load(SESSION)
        assert [message.text for message in editor.of(SESSION).messages] == ["prompt 1", "answer 2"]
        home.write(row(3), row(4))
        await editor.until(lambda: editor.of(SESSION).text() == "answer 2answer 4")
        assert editor.of(SESSION).text("user_message_chunk") == "prompt 1prompt 3"
