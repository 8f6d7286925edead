"""Wiring of the concrete classes: settings in, a running gateway out."""

from fairlead.wiring.embedded import running
from fairlead.wiring.gateway import RunningGateway
from fairlead.wiring.info import GatewayInfo

__all__ = ["GatewayInfo", "RunningGateway", "running"]
