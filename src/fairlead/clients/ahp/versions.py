"""The versions of the protocol, and their negotiation. Pure.

Version 0.9 is printed. The older ones differ from it in optional fields, and clients ignore fields that they do not
know. Later versions change the state's form, so they are refused, with the list of ours.
"""

from collections.abc import Sequence
from typing import Final

from fairlead.clients.ahp.wire import UNSUPPORTED_VERSION, AhpError

VERSIONS: Final = ("0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1")
"""Those that VS Code 1.139 offers."""


def choose_version(offered: Sequence[str]) -> str:
    """The best version that both sides speak: the client's list begins with the one that it prefers. Raises
    AhpError."""
    for version in offered:
        if version in VERSIONS:
            return version
    spoken = ", ".join(VERSIONS)
    text = f"This host speaks the Agent Host Protocol {spoken}; the client offers none of these."
    raise AhpError(UNSUPPORTED_VERSION, text, {"supportedVersions": list(VERSIONS)})
