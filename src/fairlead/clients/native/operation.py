"""REST for the operation of the gateway: its state, draining it, stopping it."""

import msgspec

from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.monitoring.api import HealthReport, ReadHealth
from fairlead.sessions.api.operation import DrainGateway, GatewayState, ReadGatewayState, StopGateway

routes = Routes(body_limit=4096)


class StopBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`agents`: also end the agents and terminals."""

    agents: bool = False


@routes.get("/v1/gateway", "admin", "gateway.show", answer=GatewayState)
def show(request: Request) -> Steps:
    """Whether the gateway runs, drains or stops, and which sessions work."""
    return json_response((yield ReadGatewayState()))


@routes.get("/v1/gateway/health", "admin", "gateway.health", answer=HealthReport)
def health(request: Request) -> Steps:
    """The health checks: database, disk, audit log, keeper and lag."""
    return json_response((yield ReadHealth()))


@routes.post("/v1/gateway/drain", "admin", "gateway.drain", answer=GatewayState, status=202)
def drain(request: Request) -> Steps:
    """Start no more turns; when no session works, end the agents and stop. Messages stay queued."""
    return json_response((yield DrainGateway()), 202)


@routes.delete("/v1/gateway/drain", "admin", "gateway.cancel_drain", answer=GatewayState)
def cancel_drain(request: Request) -> Steps:
    """Take a drain back: queued messages are sent again."""
    return json_response((yield DrainGateway(cancel=True)))


@routes.post("/v1/gateway/stop", "admin", "gateway.stop", body=StopBody, answer=GatewayState, status=202)
def stop(request: Request) -> Steps:
    """Stop the gateway, also in the middle of turns. Agents and terminals go on for the next gateway, unless agents is
    true or the gateway has no keeper (on_stop of the answer)."""
    return json_response((yield StopGateway(request.json(StopBody).agents)), 202)
