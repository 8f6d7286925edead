"""A law: a program gets the same lines from Claude Code and from the shim."""

from pathlib import Path

from e2e.gateway_harness import GatewayHarness
from e2e.harness import on_versions
from e2e.shim.caller import ASKING, SHIM, STREAM_JSON, Line, calling
from e2e.shim.scenes import converse, normalized

PARTIAL = "--include-partial-messages"
PLAIN = "5b9d0c1e-3c55-4a0f-9f43-0d9c1f5c8a00"
SHIMMED = "5b9d0c1e-3c55-4a0f-9f43-0d9c1f5c8a01"


@on_versions(core=True)
async def test_the_caller_gets_the_same_lines(
    harness: GatewayHarness, shim_env: dict[str, str], cli_env: dict[str, str], cli_cwd: Path, claude: Path
) -> None:
    flags = [*STREAM_JSON, *ASKING, PARTIAL]
    plain, ended = await run([str(claude), *flags, "--session-id", PLAIN], cli_env, cli_cwd)
    (cli_cwd / "made.txt").unlink()
    shimmed, ended_too = await run([*SHIM, "claude", *flags, "--session-id", SHIMMED], shim_env, cli_cwd)
    for before, after in zip(normalized(plain), normalized(shimmed), strict=True):
        assert before == after
    assert ended == ended_too

    # Everything that the caller got is in the log, once.
    harness.session = SHIMMED
    log = await harness.log()
    assert [line["type"] for line in log].count("turn.ended") == sum(line["type"] == "result" for line in shimmed)
    # Of a subagent the log has more: older versions do not send its texts, and the gateway reads them from its file.
    answers = [line for line in shimmed if line["type"] == "assistant" and not line["parent_tool_use_id"]]
    said = [block["text"] for line in answers for block in blocks(line, "text")]
    assert [line["text"] for line in log if line["type"] == "text" and not line.get("subagent")] == said


async def run(argv: list[str], env: dict[str, str], cwd: Path) -> tuple[list[Line], tuple[int, bytes]]:
    """The lines that the program got, its exit code and its stderr."""
    async with calling(argv, env, cwd) as caller:
        lines = await converse(caller, cwd)
        code = await caller.ended()
        return lines, (code, caller.stderr)


def blocks(line: Line, kind: str) -> list[Line]:
    return [block for block in line["message"]["content"] if block["type"] == kind]
