"""The permission modes that may be set. We check: old CLIs accept any name, and bypass mode without permission."""

from collections.abc import Collection

import msgspec

from fairlead.model.errors import BadMode
from fairlead.model.policy import PermissionMode


class ModePolicy(msgspec.Struct, frozen=True):
    """The modes that the agent's version knows, and whether this session may bypass permissions (a setting, off)."""

    known: frozenset[PermissionMode] = frozenset(PermissionMode)
    allow_bypass: bool = False

    @classmethod
    def for_agent(cls, modes: Collection[str], *, allow_bypass: bool = False) -> "ModePolicy":
        """Return the policy for an agent that reports these modes; names that we do not know are ignored."""
        return cls(frozenset(mode for mode in PermissionMode if mode in modes), allow_bypass)

    @property
    def valid(self) -> tuple[PermissionMode, ...]:
        """The modes that may be set, in the order of PermissionMode."""
        bypass = PermissionMode.BYPASS_PERMISSIONS
        return tuple(m for m in PermissionMode if m in self.known and (m is not bypass or self.allow_bypass))

    def check(self, name: str) -> PermissionMode:
        """Return the mode with this name. Raises BadMode, with the reason and the valid modes, if it may not be set."""
        valid = self.valid
        if name in valid:
            return PermissionMode(name)
        if name == PermissionMode.BYPASS_PERMISSIONS and name in self.known:
            why = (
                "The permission mode bypassPermissions is off: the gateway's settings must allow it first. "
                f"Modes that can be set: {', '.join(valid)}."
            )
            raise BadMode(name, valid, why)
        raise BadMode(name, valid)
