"""Build hook: a distribution without the web UI is refused, since nobody would notice before its users do.

`make web` builds the UI. FAIRLEAD_BUILD_WITHOUT_UI=1 builds without it on purpose: the front page then says so.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NoUserInterface(Exception):
    pass


class RequireUserInterface(BuildHookInterface):  # type: ignore[misc,type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable installation reads the folder itself, whenever the UI is built.
        if version == "editable" or os.environ.get("FAIRLEAD_BUILD_WITHOUT_UI") == "1":
            return
        page = Path(self.root) / "src" / "fairlead" / "web_dist" / "index.html"
        if not page.is_file():
            raise NoUserInterface(
                f"the web UI is not built ({page} is missing). Run `make web` first (it needs npm), or set "
                "FAIRLEAD_BUILD_WITHOUT_UI=1 to build without it."
            )
