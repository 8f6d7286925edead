"""A session at work at a gateway in a process of its own, with one client: for tests that kill or stop the gateway."""

import contextlib
from pathlib import Path
from typing import Any

from faults.gateway_process import GatewayProcess
from faults.gateway_process import _each as processes
from faults.log_checks import check_log
from faults.native_client import NativeClient, folded

Line = dict[str, Any]


class SessionAtWork:
    def __init__(self, gateway: GatewayProcess, client: NativeClient) -> None:
        self.gateway = gateway
        self.client = client
        self._since = 0

    @classmethod
    async def open(cls, gateway: GatewayProcess, **settings: Any) -> "SessionAtWork":
        client = NativeClient(await gateway.create(settings=settings))
        await client.come(gateway)
        return cls(gateway, client)

    @classmethod
    async def begin(cls, gateway: GatewayProcess, prompt: str, until: str) -> "SessionAtWork":
        work = await cls.open(gateway)
        await work.prompt(prompt, until)
        return work

    async def prompt(self, prompt: str, until: str) -> Line:
        """Send a script; return the first event of this kind that follows."""
        self._since = self.client.seq
        await self.client.send(f"SCRIPT:{prompt}")
        return await self.client.until(until, since=self._since)

    async def allow(self, asked: Line, client: NativeClient | None = None) -> None:
        answer = await (client or self.client).ask("answer", request=asked["request"], behavior="allow")
        assert answer["type"] == "reply", answer

    async def return_(self) -> None:
        """The client comes back after the end of the gateway."""
        await self.client.gone()
        assert (await self.client.come(self.gateway))["verdict"] == "ok"

    async def ended(self, status: str = "completed") -> list[Line]:
        """The log after the end of the turn, in the process that began it; the client has all of it."""
        end = await self.client.until("turn.ended", since=self._since)
        assert end["status"] == status, end
        stored = await self.gateway.stored(self.client.session)
        check_log(stored, idle=False)
        await self.client.passed(stored[-1]["seq"])
        assert self.client.folded() == folded(stored)
        for kind in ("agent.started", "agent.ready"):
            assert len(of(stored, kind)) == 1, kind
        for kind in ("agent.exited", "permission.cancelled", "error"):
            assert not of(stored, kind), of(stored, kind)
        return stored

    async def screen(self) -> str:
        async with self.gateway.http() as http:
            answer = await http.get(f"/v1/sessions/{self.client.session}/terminal")
            return "\n".join(answer.json()["lines"])


def of(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


def tool_runs(gateway: GatewayProcess) -> bool:
    """Whether the script `slowtool` is at work in the gateway's folder."""
    for pid, argv in processes("cmdline"):
        with contextlib.suppress(OSError):
            if any(b"time.sleep" in word for word in argv) and Path(f"/proc/{pid}/cwd").samefile(gateway.cwd):
                return True
    return False
