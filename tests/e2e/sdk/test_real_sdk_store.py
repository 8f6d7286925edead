"""The official SDK's own suite judges our session store."""

import json

from e2e.sdk.conftest import RunInSdk
from fairlead.wiring import GatewayInfo


async def test_the_store_fulfils_the_contracts_of_the_sdk(gateway: GatewayInfo, run_in_sdk: RunInSdk) -> None:
    printed = await run_in_sdk("store_program.py", gateway.url, gateway.token)
    conforms, same, entries = map(json.loads, printed)
    assert conforms["conforms"] >= 14, "a new store for each contract, and none was left out"
    assert same == {"same": True}, "many entries, some of them twice"
    assert entries == {"entries": 2505}
