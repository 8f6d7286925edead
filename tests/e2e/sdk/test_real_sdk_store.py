"""The official SDK's own suite judges our session store, and the real CLI writes to it and goes on from it."""

import json
from pathlib import Path

from e2e.harness import NEWEST, on_versions
from e2e.sdk.conftest import RunInSdk
from fairlead.wiring import GatewayInfo


async def test_the_store_fulfils_the_contracts_of_the_sdk(gateway: GatewayInfo, run_in_sdk: RunInSdk) -> None:
    printed = await run_in_sdk("store_program.py", gateway.url, gateway.token)
    conforms, same, entries = map(json.loads, printed)
    assert conforms["conforms"] >= 14, "a new store for each contract, and none was left out"
    assert same == {"same": True}, "many entries, some of them twice"
    assert entries == {"entries": 2505}


@on_versions(NEWEST)
async def test_a_conversation_goes_on_from_the_store_when_its_files_are_gone(
    claude: Path, cli_env: dict[str, str], project: Path, gateway: GatewayInfo, run_in_sdk: RunInSdk
) -> None:
    printed = await run_in_sdk("mirror_program.py", gateway.url, gateway.token, str(claude), str(project), env=cli_env)
    first, listed, again, stored = map(json.loads, printed)
    assert first["result"] == again["result"] == "success"
    assert listed == {"listed": [first["session"]]}
    before, after = (int(turn["text"].split()[2]) for turn in (first, again))
    assert after == before + 2, "the model got the earlier prompt and its answer"
    assert stored == {"prompts": 2}
