"""The nodes of a cluster, and a session of a node that does not come back."""

import msgspec

from fairlead.model.commands import Reply
from fairlead.model.ids import SessionId
from fairlead.model.web.requests import ServiceCall


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """`here`: the node that answers. `since`: when it started, or when it was last heard if it is not `alive`, in
    milliseconds since 1970. `policy`: a digest of its permission rules. `suspended`: it has lost the store, and takes
    no commands; only the answering node knows that of itself."""

    name: str
    here: bool
    alive: bool
    since: int
    suspended: bool
    version: str
    url: str
    roots: tuple[str, ...]
    shared: tuple[str, ...]
    agents: int
    max_agents: int
    policy: str


class ListNodes(ServiceCall["tuple[NodeView, ...]"], frozen=True):
    """-> all known nodes by name; a gateway on one machine is the only one"""


class AdoptSession(ServiceCall[Reply], frozen=True):
    """Make this node the home of a session whose node is away and does not come back. What only that node had is lost:
    the files of the session's folder that are not here, and the agent's own memory of the conversation."""

    session: SessionId
