"""Plugins: `hookimpl` marks a hook, `hookspecs` lists the five hooks, `registry` loads and holds what they give."""

from memory_core.plugins.hookspecs import hookimpl
from memory_core.plugins.registry import PluginRegistry, get_registry

__all__ = ["PluginRegistry", "get_registry", "hookimpl"]
