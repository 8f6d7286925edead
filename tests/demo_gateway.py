"""A whole gateway with the demo agent, in the loop of the test."""

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from fairlead.config import Config
from fairlead.wiring import GatewayInfo, running


def demo_gateway(data: Path, project: Path) -> AbstractAsyncContextManager[GatewayInfo]:
    homes = (str(project / ".claude"),)
    config = Config(port=0, data=str(data), agent="demo", roots=(str(project),), claude_homes=homes)
    return running(config, {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ})
