"""Where a user's settings and data are, by the environment."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from fairlead.model.errors import BadRequest


def home_of(env: Mapping[str, str]) -> str:
    """The home folder: from HOME, otherwise from the list of users; empty if neither has one."""
    if env.get("HOME"):
        return env["HOME"]
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def default_data(env: Mapping[str, str]) -> Path:
    """Raises BadRequest if there is no home folder."""
    base = env.get("XDG_DATA_HOME", "")
    if not base:
        home = home_of(env)
        if not home:
            raise BadRequest("There is no HOME, and this user has no home folder: name a data folder with --data.")
        base = f"{home}/.local/share"
    return Path(os.path.expanduser(base)) / "fairlead"


def default_file(env: Mapping[str, str]) -> Path:
    """The settings file. It need not exist; a user without a home folder has that of the machine."""
    home = home_of(env)
    base = env.get("XDG_CONFIG_HOME", "") or (f"{home}/.config" if home else "/etc")
    return Path(os.path.expanduser(base)) / "fairlead" / "config.toml"


def absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path)) if path else ""
