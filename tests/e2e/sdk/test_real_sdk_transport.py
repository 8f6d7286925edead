"""The official Python SDK, unmodified, over our transport: turns, permissions, interrupt, and a session continued."""

import json
import re
from pathlib import Path

from docs.documents import ROOT
from e2e.sdk.conftest import RunInSdk
from fairlead.client import connect
from fairlead.model import events as ev
from fairlead.wiring import GatewayInfo

PAGE = ROOT / "docs" / "how-to" / "agent-sdk.md"


async def test_sessions_of_the_sdk_are_in_the_gateway(
    gateway: GatewayInfo, project: Path, run_in_sdk: RunInSdk
) -> None:
    printed = await run_in_sdk("transport_program.py", gateway.url, gateway.token, str(project))
    hello, made, denied, cut, asked, again, both, *refused = map(json.loads, printed)
    assert "hello" in hello["text"]
    assert [line["result"] for line in (hello, made, denied, again)] == ["success"] * 4
    assert cut["result"] == "error_during_execution"
    assert asked == {"asked": ["touch made", "touch denied"], "ready": False}
    assert (project / "made").exists()
    assert not (project / "denied").exists()
    assert both == {"both": True}
    assert len(refused) == 2, "a wrong token and an unknown session"
    async with connect(gateway.url, gateway.token) as client:
        ends = [line.event async for line in client.session(again["session"]).events()]
    assert len([event for event in ends if isinstance(event, ev.TurnEnded)]) == 5


async def test_the_example_of_the_page(
    gateway: GatewayInfo, project: Path, tmp_path: Path, run_in_sdk: RunInSdk
) -> None:
    program = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    for given, mine in (
        ("http://127.0.0.1:7433", gateway.url),
        ("fl_...", gateway.token),
        ("/home/me/project", str(project)),
        ("explain this repository", "SCRIPT:bash touch made"),
    ):
        assert given in program
        program = program.replace(given, mine)
    (tmp_path / "example.py").write_text(f"import sys\n\nsys.path += sys.argv[1].split(':')\n{program}")
    output = await run_in_sdk(str(tmp_path / "example.py"))
    assert "allowed: Bash" in output
    assert output[-1].startswith("continue with the session ")
    assert (project / "made").exists()
