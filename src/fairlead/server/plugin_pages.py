"""Files of plugins' pages. They need a credential, and only file types of web pages are served.

Rule: a plugin's page has none of our privileges. Opened directly, it runs in a sandbox with a separate origin and may
load nothing. A host application that fetches the page's module is responsible for how it uses it.
"""

import asyncio
from pathlib import Path, PurePosixPath
from typing import Final

from fairlead.model.auth import Identity
from fairlead.model.errors import NotFound
from fairlead.model.web.requests import Response, ServiceHandlers
from fairlead.model.web.routes import FileStream
from fairlead.plugins.api import ReadPluginFile
from fairlead.plugins.manager import PluginManager
from fairlead.server.static import TYPES, ReadStatic, StaticFiles

POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Allows only the page's inline scripts: they have no origin, no access to our storage, and no connections."""
_LIBRARIES: Final = "node_modules"


def page_handlers(plugins: PluginManager) -> ServiceHandlers:
    async def read(who: Identity, action: ReadPluginFile) -> Response | FileStream:
        folder, kept_back = await plugins.page(action.name)
        path = PurePosixPath(action.path)
        if path.suffix.lower() not in TYPES or action.path in kept_back or _LIBRARIES in path.parts:
            raise NotFound("file", f"/{action.path}")
        files = StaticFiles(Path(folder), POLICY)
        return await asyncio.to_thread(files.read, ReadStatic(action.path, action.known))

    return {ReadPluginFile: read}
