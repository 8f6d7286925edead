"""ACP agents that people have: how each is started, and how it is installed. Pure."""

from typing import Final

import msgspec


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """`env`: the variables that the agent reads its credentials from. `asks`: what it needs so that it asks before it
    acts."""

    command: tuple[str, ...]
    install: str
    env: tuple[str, ...] = ()
    asks: str = ""


PRESETS: Final = {
    "gemini": Preset(
        command=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        env=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"),
        asks="It asks before commands and edits; reading inside the folder does not ask.",
    ),
    "codex": Preset(
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        env=("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"),
        asks="Set INITIAL_AGENT_MODE=read-only for it: in its other modes it edits without asking.",
    ),
    "opencode": Preset(
        command=("opencode", "acp"),
        install="npm install -g opencode-ai",
        env=("ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
        asks='It asks for nothing until its opencode.json has "permission": {"edit": "ask", "bash": "ask"}.',
    ),
    "goose": Preset(
        command=("goose", "acp"),
        install="see the goose documentation",
        asks="Whether it asks was not tried.",
    ),
    "claude-agent-acp": Preset(
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        env=("ANTHROPIC_API_KEY",),
        asks="The agent claude of Fairlead does more: prefer that.",
    ),
}
