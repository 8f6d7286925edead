"""The server's own routes, which belong to no client protocol."""

from fairlead.model.web.requests import Response
from fairlead.model.web.routes import ClientProtocol, Request, Routes, json_response


def own_protocol(version: str, served: list[str]) -> ClientProtocol:
    """Build the server's own routes. `version` is empty on a door: a front end would take it for its server's."""
    info = {"status": "ok", **({"version": version} if version else {}), "protocols": served}

    routes = Routes()

    @routes.get("/health", "public", "health", body_limit=0)
    def health(request: Request) -> Response:
        return json_response(info)

    return ClientProtocol(name="server", routes=tuple(routes))
