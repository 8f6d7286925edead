"""Opens the store that the settings name."""

import os
import re
import socket
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.auth.cluster_key import ClusterKey
from fairlead.config import Config
from fairlead.model.errors import BadRequest, FairleadError
from fairlead.model.store import NodeInfo
from fairlead.stores.api import GatewayStore
from fairlead.stores.sqlite import SqliteStore
from fairlead.system.clock import Clock
from fairlead.uploads.service import FOLDER as UPLOADS

if TYPE_CHECKING:
    from fairlead.stores.nats.store import NatsOptions

SQLITE = "sqlite"


async def open_store(config: Config, clock: Clock, failed: Callable[[FairleadError], None]) -> GatewayStore:
    """Open the store of a gateway. `failed` is called if it cannot go on later."""
    data = Path(config.data)
    if config.store == SQLITE:
        return await SqliteStore.open(data, durability=config.durability, spill_above=config.record_bytes, clock=clock)
    options = nats_options(config)
    from fairlead.stores.nats.connection import read_address
    from fairlead.stores.nats.store import NatsStore

    store = await NatsStore.join(data, read_address(config.store), options, clock)
    store.presence.on_twin = lambda message: failed(BadRequest(message))
    store.peers.describe(
        NodeInfo(
            version=version("fairlead"),
            url=config.public_url,
            roots=config.roots,
            shared=config.shared,
            home=config.claude_home or os.environ.get("HOME", ""),
            uploads=str(data / UPLOADS),
            max_agents=config.max_agents,
        )
    )
    return store


def nats_options(config: Config) -> "NatsOptions":
    """The options of a store on NATS servers. BadRequest if something is missing that it needs."""
    try:
        from fairlead.stores.nats.store import NatsOptions
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "nats":
            raise
        raise BadRequest(
            "A store on NATS servers needs the extra cluster: pip install 'fairlead[cluster]'", store=config.store
        ) from None
    return NatsOptions(
        node=config.node or default_node(),
        key=read_cluster_key(config.cluster_key),
        creds=config.store_creds,
        spill_above=config.record_bytes,
    )


def default_node() -> str:
    """The name of the machine, with the characters that a node may have."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname().partition(".")[0])[:32].strip("-") or "node"


def read_cluster_key(file: str) -> bytes:
    if not file:
        raise BadRequest(
            "A store on NATS servers needs a cluster key, which all its gateways have: make one with fairlead nodes "
            "key FILE, copy it to every machine, and name it with --cluster-key."
        )
    return ClusterKey.read(Path(file)).secret
