"""`fairlead nodes`: the gateways that share a store, their key, and a session of one that does not come back."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.context import CommandContext, app, command, examples, with_context
from fairlead.cli.options import Yes, confirm
from fairlead.cli.output import ago, hint
from fairlead.client.endpoint import segment

if TYPE_CHECKING:
    from fairlead.sessions.api.nodes import NodeView

nodes = typer.Typer(name="nodes", help="The gateways that share a store.", invoke_without_command=True)
app.add_typer(
    nodes, epilog=examples("fairlead nodes", "fairlead nodes key cell.key", "fairlead nodes adopt 0a000000-...")
)


def listing(context: CommandContext, invocation: typer.Context) -> None:
    """List the gateways that share the store: their state, version, agents and folders."""
    if invocation.invoked_subcommand is not None:
        return
    from fairlead.clients.native.nodes import NodeList

    found = context.call("GET", "/v1/nodes", NodeList).nodes

    def row(node: "NodeView") -> list[str]:
        state = "no store" if node.suspended else "up" if node.alive else "away"
        agents = f"{node.agents}/{node.max_agents}" if node.max_agents else str(node.agents)
        name = f"{node.name} (here)" if node.here else node.name
        since = ago(node.since) if node.since else ""
        return [name, state, since, node.version, agents, " ".join(node.roots)]

    context.print_table(("NAME", "STATE", "SINCE", "VERSION", "AGENTS", "FOLDERS"), found, row)
    rules = {node.policy for node in found if node.alive and node.policy}
    if len(rules) > 1 and not context.json:
        hint("The nodes have different permission rules: compare allow, deny and ask in their settings.")


nodes.callback()(with_context(listing, color=True))


@command("fairlead nodes key cell.key", group=nodes, json=False, gateway=False)
def key(
    context: CommandContext,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write, readable by you alone.")],
) -> None:
    """Make the key of a cluster. Copy the file to every machine, and name it there with --cluster-key."""
    from fairlead.auth.cluster_key import make_cluster_key

    path = Path(file).expanduser()
    make_cluster_key(path)
    hint(f"{path} is the key of a new cluster. Whoever has it can act as one of its nodes: keep it secret.")


@command("fairlead nodes adopt 0a000000-0000-4000-8000-000000000001", group=nodes)
def adopt(
    context: CommandContext,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session whose node is away.")],
    yes: Yes = False,
) -> None:
    """Continue a session on this node whose own node is away and does not come back.

    Its history stays. The files of its folder that are not on this machine are lost to it, and so is the agent's own
    memory of the conversation, unless the agents' HOME is shared. An agent that still runs on the other node is cut
    off: what it writes from then on is refused."""
    from fairlead.model.commands import Reply

    if not yes:
        confirm(f"Continue {session} here? What only its own node has is lost to it.")
    done = context.call("POST", f"/v1/sessions/{segment(session)}/adopt", Reply)
    context.print_result(done, f"{session} continues on this node.")
