"""The audit log of gateways that are killed: whole, and with every acknowledged act."""

import asyncio
import json
from pathlib import Path

import pytest

from fairlead.audit.files import export, verify
from faults.gateway_process import GatewayProcess

pytestmark = pytest.mark.fault


async def test_a_killed_gateway_has_recorded_all_that_it_acknowledged(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    async with GatewayProcess(tmp_path, audit_file_bytes=4096) as gateway:
        for _ in range(3):
            sending = asyncio.create_task(create_many(gateway, acknowledged))
            before = len(acknowledged)
            while len(acknowledged) < before + 30:
                await asyncio.sleep(0.01)
            await gateway.kill()
            await asyncio.gather(sending, return_exceptions=True)
            found = await asyncio.to_thread(verify, gateway.data)
            assert found.problems == []
            recorded = {json.loads(line).get("session") for line in export(gateway.data)}
            assert acknowledged <= recorded
            await gateway.start()
    found = await asyncio.to_thread(verify, gateway.data)
    assert found.problems == []
    actions = [json.loads(line)["action"] for line in export(gateway.data)]
    assert actions.count("gateway.start") == 4
    assert "audit.broken" not in actions


async def create_many(gateway: GatewayProcess, acknowledged: set[str]) -> None:
    """Create sessions, several at a time, until the gateway is gone."""

    async def create() -> None:
        async with gateway.http() as http:
            while True:
                made = await http.post("/v1/sessions", json={"cwd": str(gateway.cwd)})
                if made.status_code == 201:
                    acknowledged.add(made.json()["session"])

    await asyncio.gather(*(create() for _ in range(4)))
