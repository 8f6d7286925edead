"""REST for plugins: list them, and enable or disable each one."""

import msgspec

from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.plugins.api import DisablePlugin, EnablePlugin, ListPlugins, PluginView

routes = Routes()


class PluginList(msgspec.Struct, frozen=True):
    plugins: tuple[PluginView, ...]


class EnableBody(msgspec.Struct, frozen=True):
    """`digest` is the plugin's digest from the list."""

    digest: str


@routes.get("/v1/plugins", "admin", "plugins.list", answer=PluginList)
def list_plugins(request: Request) -> Steps:
    """List plugins: what each would run, whether it runs, its port and its state."""
    return json_response(PluginList((yield ListPlugins())))


@routes.post("/v1/plugins/{name}", "admin", "plugins.enable", body=EnableBody, answer=PluginView, body_limit=4096)
def enable(request: Request) -> Steps:
    """Enable a plugin with the content that the list showed."""
    return json_response((yield EnablePlugin(request.params["name"], request.json(EnableBody).digest)))


@routes.delete("/v1/plugins/{name}", "admin", "plugins.disable", answer=PluginView)
def disable(request: Request) -> Steps:
    """Stop a plugin's server and disable the plugin."""
    return json_response((yield DisablePlugin(request.params["name"])))
