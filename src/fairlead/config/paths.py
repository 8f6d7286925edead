"""The default places of the settings and the data folder."""

from collections.abc import Mapping
from pathlib import Path


def default_data(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_DATA_HOME") or f"{env.get('HOME', '~')}/.local/share"
    return Path(base).expanduser() / "fairlead"


def default_file(env: Mapping[str, str]) -> Path:
    base = env.get("XDG_CONFIG_HOME") or f"{env.get('HOME', '~')}/.config"
    return Path(base).expanduser() / "fairlead" / "config.toml"


def absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""
