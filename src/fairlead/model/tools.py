"""The tools of an agent, as far as the policy understands them. Each kind of agent declares its own catalogue.

Rules name tools as the catalogue does. With aliases one rule holds for agents that have different names for a tool.
"""

from typing import Literal

import msgspec

Effect = Literal["shell", "read", "search", "edit", "fetch", "question", "harmless", "other"]


class EditArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the arguments from which the change of a file is read."""

    whole: str = ""
    """The new text of the whole file: then there are no others."""
    several: str = ""
    """A list of replacements, each with the arguments below; without it the call itself is the only one."""
    old: str = ""
    new: str = ""
    everywhere: str = ""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy knows about a tool."""

    effect: Effect = "other"
    """`question`: only a person answers it, whatever the mode and the rules allow. `harmless`: by itself it does
    nothing outside the agent. `other`: not known, so a person is asked."""
    argument: str = ""
    """The argument with the command, path or address; with another effect: what a rule's content is compared with."""
    pattern: str = ""
    """The argument of a search with a file pattern, relative to its path."""
    edit: EditArguments = EditArguments()
    coordinates: bool = False
    """It delegates work or keeps the lists of it: the mode `delegate` allows it."""

    @property
    def has_path(self) -> bool:
        return self.effect in ("read", "search", "edit")

    @property
    def reads(self) -> bool:
        return self.effect in ("read", "search")


class ToolCatalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The tools by name. `aliases`: other names of a tool. `prose`: arguments that hold prose or file contents; a path
    in them is only mentioned, not opened."""

    tools: dict[str, Tool] = {}
    aliases: dict[str, str] = {}
    prose: frozenset[str] = frozenset()

    def canonical(self, name: str) -> str:
        """Return the name of a tool in rules."""
        return self.aliases.get(name, name)

    def find(self, name: str) -> Tool:
        return self.tools.get(self.canonical(name), Tool())
