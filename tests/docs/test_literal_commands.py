"""Lines of the pages that failed when somebody typed them."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text()


def blocks(text: str) -> list[list[str]]:
    """The indented commands of a page, by block."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("    "):
            found[-1].append(line.strip())
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def test_a_user_of_claudecodeuis_app_gets_a_password() -> None:
    added = [
        line for block in blocks(page("how-to/doors.md")) for line in block if line.startswith("fairlead user add")
    ]
    assert added and all("--password" in line for line in added)


def test_a_folder_is_made_before_something_is_put_into_it() -> None:
    for path in DOCS.rglob("*.md"):
        made = ""
        for line in (line for block in blocks(path.read_text()) for line in block):
            made += line if line.startswith("mkdir -p") else ""
            target = re.match(r"fairlead backup (\S+)/", line)
            assert target is None or target[1] in ("~", *made.split()), (path, line)


def test_nginx_passes_the_host_with_its_port() -> None:
    """`$host` has no port: off port 443 the gateway would refuse it (421)."""
    hosts = re.findall(r"proxy_set_header Host (\S+);", page("how-to/behind-a-proxy.md"))
    assert hosts == ["$http_host"]


def test_every_page_uses_the_usual_port() -> None:
    """Other ports are those of doors, and of a second gateway that the page starts itself."""
    for path in DOCS.rglob("*.md"):
        text = path.read_text()
        started = set(re.findall(r"--port[ =](\d+)", text)) | set(re.findall(r"=(\d{4,5})\b", text))
        for port in re.findall(r"curl [^\n]*127\.0\.0\.1:(\d+)", text):
            assert port in {"7433", *started}, (path, port)
