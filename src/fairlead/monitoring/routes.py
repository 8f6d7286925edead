"""The routes that tell whether the gateway works; they belong to no client protocol."""

from collections.abc import Sequence

from fairlead.model.web.requests import Response, do
from fairlead.model.web.routes import ClientProtocol, Request, Routes, Steps, json_response
from fairlead.monitoring.api import ReadHealth, ReadMetrics
from fairlead.monitoring.metrics import CONTENT_TYPE


def own_routes(version: str, served: Sequence[str]) -> ClientProtocol:
    """Build the routes. `version` is empty on a door: a front end would take it for its server's, and a door
    has only `/health`."""
    info = {"status": "ok", **({"version": version} if version else {}), "protocols": list(served)}
    routes = Routes()

    @routes.get("/health", "public", "health", body_limit=0)
    def health(request: Request) -> Response:
        return json_response(info)

    if version:

        @routes.get("/health/ready", "public", "ready", body_limit=0)
        def ready(request: Request) -> Steps:
            report = yield from do(ReadHealth())
            # Strangers learn which check fails, and no details.
            failing = [check.name for check in report.checks if check.level == "bad"]
            if report.ready:
                return json_response({"status": "ready"})
            return json_response({"status": "not ready", "failing": failing}, 503)

        @routes.get("/metrics", "metrics", "metrics", body_limit=0)
        def metrics(request: Request) -> Steps:
            return Response(body=(yield from do(ReadMetrics())), content_type=CONTENT_TYPE)

    return ClientProtocol(name="server", routes=tuple(routes))
