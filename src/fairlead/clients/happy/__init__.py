"""Happy's session protocol: a session's envelopes, numbered without holes. Reference: docs/reference/happy.md."""

from typing import Final

from fairlead.clients.happy.mapper import HappyView
from fairlead.model.routes import ClientProtocol

PROTOCOL: Final = ClientProtocol(name="happy", views=(HappyView(),))
