"""AG-UI 1.0 for pages that are built on CopilotKit and the like: a run is a POST with a stream as its answer.
docs/reference/agui.md."""

from typing import Final

from fairlead.clients.agui.history import NAME, HistoryReducer
from fairlead.clients.agui.routes import routes
from fairlead.model.views import ReducerProjection
from fairlead.model.web.routes import ClientProtocol

PROTOCOL: Final = ClientProtocol(name="agui", routes=tuple(routes), views=(ReducerProjection(NAME, HistoryReducer),))
