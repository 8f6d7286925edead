"""Agents that speak the Agent Client Protocol (ACP) on stdio: Gemini CLI, opencode, Codex and others."""
