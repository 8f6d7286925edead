"""Creates .venv: every locked dependency by its hash, the project itself editable, and the command `fairlead`.

Runs on a bare Python (standard library only), because it creates the environment. It does nothing when a stamp
inside .venv shows that lock files, project metadata and Python are those of the last install.
"""

import hashlib
import importlib.util
import os
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path

from tools.debian import apt_install

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "fairlead-install.stamp"
INPUTS = ("requirements.lock", "tools/uv.lock.txt", "tools/build.lock.txt", "pyproject.toml", "testing/pyproject.toml")


def fingerprint() -> str:
    """Everything that an install depends on, as one hash."""
    digest = hashlib.sha256(f"{sys.version}\0{sys.base_prefix}\0{ROOT}\0".encode())
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def is_current() -> bool:
    command = VENV / "bin" / "fairlead"
    return command.exists() and STAMP.exists() and STAMP.read_text() == fingerprint()


def say(text: str) -> None:
    print(f"install: {text}", flush=True)


def network_env() -> dict[str, str]:
    """The environment for pip and uv: ours, with longer timeouts and the system's certificates."""
    # A mirror on a slow line needs more than uv's 30 s for its largest file.
    env = {"UV_HTTP_TIMEOUT": "180", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **os.environ}
    # uv brings its own authorities; a machine behind an inspecting proxy has another one in the system's store.
    if ssl.create_default_context().cert_store_stats()["x509_ca"]:
        env.setdefault("UV_SYSTEM_CERTS", "1")
    return env


def run(*argv: str | Path) -> None:
    subprocess.run([str(part) for part in argv], check=True, cwd=ROOT, env=network_env())


def make_venv() -> None:
    if not importlib.util.find_spec("ensurepip"):
        # Debian splits this part of the standard library off into a separate package.
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        say(f"this Python lacks ensurepip; Debian has it in {package}")
        if not apt_install(package):
            sys.exit(f"install: cannot make .venv: run `apt-get install {package}` as root, then this again")
    say(f"making .venv with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    run(sys.executable, "-m", "venv", VENV)


def healthy() -> bool:
    """Whether .venv has a running Python of this version; it breaks when the Python it was made from is removed."""
    python = VENV / "bin" / "python"
    probe = "import sys, pip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return done.stdout.split() == [str(sys.version_info.major), str(sys.version_info.minor)]


def install() -> None:
    begun = time.monotonic()
    if not healthy():
        make_venv()
    STAMP.unlink(missing_ok=True)
    python, uv = VENV / "bin" / "python", VENV / "bin" / "uv"
    say("fetching uv")
    run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", "tools/uv.lock.txt")
    say("installing the locked dependencies")
    run(uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", "requirements.lock")
    say("installing fairlead itself")
    editable = (
        "--no-deps",
        "--build-constraints",
        "tools/build.lock.txt",
        "--editable",
        ".",
        "--editable",
        "./testing",
    )
    run(uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *editable)
    STAMP.write_text(fingerprint())
    say(f"ready in {time.monotonic() - begun:.0f} s: .venv/bin/fairlead")


def main() -> int:
    if is_current():
        return 0
    try:
        install()
    except subprocess.CalledProcessError as error:
        say(f"failed: `{' '.join(error.cmd)}` exited {error.returncode}; its own words are above")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
