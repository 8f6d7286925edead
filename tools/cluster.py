"""`make cluster`: three NATS servers and two gateways with the demo agent on this machine, until Ctrl-C.

Everything is below build/cluster, and is kept for the next time.
"""

import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "cluster"
PATIENCE_S = 60.0

sys.path.insert(0, str(ROOT / "tests"))


def make_key() -> Path:
    file = FOLDER / "cell.key"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32))
    return file


def start_gateway(node: str, store: str, key: Path) -> "subprocess.Popen[bytes]":
    project = FOLDER / node / "project"
    project.mkdir(parents=True, exist_ok=True)
    options = {
        "store": store,
        "cluster-key": key,
        "node": node,
        "data": FOLDER / node / "data",
        "roots": project,
        "agent": "demo",
        "port": 0,
        "log-level": "warning",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return subprocess.Popen([ROOT / ".venv/bin/fairlead", "serve", "--no-keeper", *words])


def url_of(node: str, process: "subprocess.Popen[bytes]") -> str:
    from fairlead.client.endpoint import read_server_file

    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        server = read_server_file(FOLDER / node / "data")
        if server is not None and server.pid == process.pid:
            return server.url
        time.sleep(0.1)
    raise SystemExit(f"cluster: the gateway {node} did not start")


def main() -> int:
    from stores.nats_servers import NatsServers

    FOLDER.mkdir(parents=True, exist_ok=True)
    key = make_key()
    servers = NatsServers(FOLDER / "nats", 3).start()
    gateways: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for node in ("g1", "g2"):
            gateways[node] = start_gateway(node, f"{servers.urls}/main", key)
        for node, process in gateways.items():
            print(f"cluster: {node} is at {url_of(node, process)}", flush=True)
        print(f"cluster: the store is {servers.urls}/main, its key {key}. Ctrl-C ends everything.", flush=True)
        for process in gateways.values():
            process.wait()
    except KeyboardInterrupt:
        print("cluster: stopping", flush=True)
    finally:
        for process in gateways.values():
            process.terminate()
        for process in gateways.values():
            process.wait()
        servers.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
