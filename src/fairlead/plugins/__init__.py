"""Plugins: programs that a person put into a folder and enabled, run and watched here, and their sockets bridged.

A manifest says what is run; nothing that a client sends does.
"""

from fairlead.plugins.manager import PluginManager, PluginSettings, plugin_environment

__all__ = ["PluginManager", "PluginSettings", "plugin_environment"]
