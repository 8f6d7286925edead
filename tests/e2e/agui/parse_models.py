"""Reads AG-UI events, one per line, with the models of `ag-ui-protocol`; prints each event that they reject."""

import sys

from ag_ui.core.events import Event  # type: ignore[import-not-found]  # it is in the cache, outside of .venv
from pydantic import TypeAdapter, ValidationError

adapter: TypeAdapter[Event] = TypeAdapter(Event)
for line in sys.stdin:
    try:
        adapter.validate_json(line, strict=False)
    except ValidationError as error:
        print(line.strip()[:400], str(error)[:400])
