"""Metrics of a whole gateway, as Prometheus reads them."""

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from demo_gateway import demo_gateway
from fairlead.wiring import GatewayInfo
from local_http import local_client

pytestmark = pytest.mark.process

DOCS = Path(__file__).resolve().parents[2] / "docs"


def client(running: GatewayInfo, token: str) -> httpx2.AsyncClient:
    return local_client(base_url=running.url, headers={"authorization": f"Bearer {token}"})


async def read(http: httpx2.AsyncClient) -> dict[str, Any]:
    answer = await http.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.text)
    return {
        f"{sample.name}{sorted(sample.labels.items())}" if sample.labels else sample.name: sample.value
        for family in families
        for sample in family.samples
    }


async def test_metrics_count_what_the_gateway_does(tmp_path: Path) -> None:
    async with demo_gateway(tmp_path / "data", tmp_path) as running, client(running, running.token) as owner:
        assert (await owner.get("/health/ready")).json() == {"status": "ready"}
        session = (await owner.post("/v1/sessions", json={"text": "SCRIPT:text hello"})).json()["session"]
        while not (await owner.get(f"/v1/sessions/{session}")).json()["summary"].get("turns"):
            await asyncio.sleep(0.02)
        while (await owner.get(f"/v1/sessions/{session}")).json()["summary"]["state"] != "idle":
            await asyncio.sleep(0.02)
        await owner.get("/v1/sessions", headers={"authorization": "Bearer wrong"})
        found = await read(owner)
        assert found["fairlead_turns_total[('status', 'completed')]"] == 1
        assert found["fairlead_commands_total[('command', 'send'), ('outcome', 'ok')]"] == 1
        assert found["fairlead_command_seconds_count"] == 2
        assert found["fairlead_command_seconds_bucket[('le', '+Inf')]"] == 2
        assert found["fairlead_refused_requests_total[('code', 'bad_credential')]"] == 1
        assert found["fairlead_sessions[('state', 'idle')]"] == 1
        assert found["fairlead_connections"] == 1, "this request"
        assert found["fairlead_ready"] == 1
        assert found["fairlead_health[('check', 'disk')]"] in (0, 1)
        assert found["fairlead_audit_entries_total"] >= 3
        assert found["process_open_fds"] > 0
        report = (await owner.get("/v1/gateway/health")).json()
        assert {check["name"] for check in report["checks"]} == {"store", "disk", "audit", "lag"}


async def test_a_token_for_metrics_reads_nothing_else(tmp_path: Path) -> None:
    async with demo_gateway(tmp_path / "data", tmp_path) as running, client(running, running.token) as owner:
        made = await owner.post("/v1/tokens", json={"name": "prometheus", "scopes": ["metrics"]})
        viewer = await owner.post("/v1/tokens", json={"name": "viewer", "scopes": ["view", "chat", "approve"]})
        async with client(running, made.json()["secret"]) as prometheus:
            assert (await prometheus.get("/metrics")).status_code == 200
            for path in ("/v1/sessions", "/v1/audit", "/v1/gateway/health", "/v1/insight?since=0&until=1"):
                assert (await prometheus.get(path)).status_code == 403, path
        async with client(running, viewer.json()["secret"]) as other:
            assert (await other.get("/metrics")).status_code == 403
        async with local_client(base_url=running.url) as stranger:
            assert (await stranger.get("/metrics")).status_code == 401


async def test_the_page_on_monitoring_names_every_metric_and_no_other(tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "monitoring.md").read_text()
    named = set(re.findall(r"\bfairlead_[a-z_]+", page))
    async with demo_gateway(tmp_path / "data", tmp_path) as running, client(running, running.token) as owner:
        text = (await owner.get("/metrics")).text
    told = set(re.findall(r"^# TYPE (fairlead_[a-z_]+)", text, re.MULTILINE))
    samples = told | {f"{name}_{end}" for name in told for end in ("bucket", "count", "sum")}
    assert named - samples == set()
    assert told - named == set()
