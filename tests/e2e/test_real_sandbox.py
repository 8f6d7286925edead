"""The real CLI in its sandbox, over stdio and in a terminal: its tools see nothing of the gateway."""

import os
from pathlib import Path

import pytest

from e2e.gateway_harness import open_gateway, settings
from e2e.harness import on_versions

CANARY = "a canary that sings"
LOOK = """
cat {data}/canary {data}/admin-token /proc/{pid}/environ /proc/[0-9]*/cwd/canary > {cwd}/looking 2>&1
ls {data} >> {cwd}/looking 2>&1
kill -0 {pid} 2>/dev/null && echo the gateway can be signalled >> {cwd}/looking
mv {cwd}/looking {cwd}/seen
echo I looked
"""


@on_versions()
@pytest.mark.parametrize("link", ["stdio", "terminal"])
async def test_a_tool_of_the_real_cli_sees_nothing_of_the_gateway(
    claude: Path, cli_env: dict[str, str], cli_cwd: Path, tmp_path: Path, agreed: None, link: str
) -> None:
    data = tmp_path / "data"
    config = settings(
        data, tmp_path, agent="claude", claude=str(claude), pass_env=["IS_SANDBOX"], allow=["Bash"], sandbox="require"
    )
    look = cli_cwd / "look.sh"
    look.write_text(LOOK.format(data=data, cwd=cli_cwd, pid=os.getpid()))
    async with open_gateway(config, cli_env, cli_cwd) as harness:
        (data / "canary").write_text(CANARY)
        await harness.open(f"SCRIPT:bash sh {look}", settings={"link": link})
        assert (await harness.until("turn.ended"))["status"] == "completed"
        (result,) = harness.all("tool.ended")
        assert "I looked" in str(result)
        seen = (cli_cwd / "seen").read_text(errors="replace")
        assert CANARY not in seen and harness.gateway.token not in seen and "signalled" not in seen
        assert seen.splitlines()[-1:] == ["uploads"]
