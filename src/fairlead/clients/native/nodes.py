"""REST for the nodes of a cluster."""

import msgspec

from fairlead.model.commands import Reply
from fairlead.model.ids import session_id
from fairlead.model.web.routes import Request, Routes, Steps, json_response
from fairlead.sessions.api.nodes import AdoptSession, ListNodes, NodeView

routes = Routes(body_limit=0)


class NodeList(msgspec.Struct, frozen=True):
    nodes: tuple[NodeView, ...]


@routes.get("/v1/nodes", "view", "nodes.list", answer=NodeList)
def list_nodes(request: Request) -> Steps:
    """The gateways that share the store, with the folders of each; a gateway on one machine is the only one."""
    return json_response(NodeList((yield ListNodes())))


@routes.post("/v1/sessions/{session}/adopt", "admin", "sessions.adopt", answer=Reply)
def adopt(request: Request) -> Steps:
    """Continue a session on this node whose own node is away and does not come back. Files that are not here are lost,
    and so is the agent's own memory of the conversation, unless its home is shared."""
    return json_response((yield AdoptSession(session_id(request.params["session"]))))
