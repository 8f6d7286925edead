"""REST for plugins: list them, and enable or disable each one."""

from typing import Final

import msgspec

from fairlead.model.web.routes import Request, Route, Steps, json_response
from fairlead.plugins.api import DisablePlugin, EnablePlugin, ListPlugins, PluginView


class PluginList(msgspec.Struct, frozen=True):
    plugins: tuple[PluginView, ...]


class EnableBody(msgspec.Struct, frozen=True):
    """`digest` is the plugin's digest from the list."""

    digest: str


def list_plugins(request: Request) -> Steps:
    return json_response(PluginList((yield ListPlugins())))


def enable(request: Request) -> Steps:
    return json_response((yield EnablePlugin(request.params["name"], request.json(EnableBody).digest)))


def disable(request: Request) -> Steps:
    return json_response((yield DisablePlugin(request.params["name"])))


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/plugins",
        access="admin",
        name="plugins.list",
        handle=list_plugins,
        about="Plugins: what each would run, whether it does, on which port, and how it is.",
        answer=PluginList,
    ),
    Route(
        method="POST",
        path="/v1/plugins/{name}",
        access="admin",
        name="plugins.enable",
        handle=enable,
        about="Let a plugin run as the list showed it.",
        body=EnableBody,
        answer=PluginView,
        body_limit=4096,
    ),
    Route(
        method="DELETE",
        path="/v1/plugins/{name}",
        access="admin",
        name="plugins.disable",
        handle=disable,
        about="End a plugin's server, and let it run no more.",
        answer=PluginView,
    ),
)
