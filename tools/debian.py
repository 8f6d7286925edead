"""Debian packages that a step needs, installed when we may: as root, with apt-get. Standard library only."""

import os
import shutil
import subprocess


def apt_install(*packages: str) -> bool:
    """Install the packages; False when we may not (not root, not Debian) or it failed."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    print(f"installing Debian packages: {' '.join(packages)}", flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # An image's package lists are often empty or stale; a failed update shows in the install after it.
    subprocess.run(["apt-get", "update", "-qq"], env=env, check=False)
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    return subprocess.run(install, env=env, check=False, stdout=subprocess.DEVNULL).returncode == 0
