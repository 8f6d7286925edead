"""Both API documents pass the common parsers, and the common generators make whole clients of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.clients.native import ROUTES
from tools.api_judges import PARSERS, python_folder

pytestmark = pytest.mark.process

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"

PARSE = """
const { createRequire } = require("node:module");
const { readFileSync } = require("node:fs");
const { Parser } = createRequire(process.argv[1] + "/")("@asyncapi/parser");
new Parser().parse(readFileSync(process.argv[2], "utf8")).then(({ document, diagnostics }) => {
  const serious = diagnostics.filter(({ severity }) => severity < 2);
  const bad = serious.map(({ code, path, message }) => [code, path, message]);
  console.log(JSON.stringify({ whole: document !== undefined, bad }));
});
"""


def run(*argv: str | Path, cwd: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    words = [str(word) for word in argv]
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(words, cwd=cwd, env={**kept, **env}, capture_output=True, text=True, check=False)


def test_asyncapis_own_parser_finds_nothing(tmp_path: Path) -> None:
    ran = run("node", "-e", PARSE, PARSERS.folder, REFERENCE / "asyncapi.yaml", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"whole": True, "bad": []}


def test_a_python_client_is_generated_with_every_call(tmp_path: Path) -> None:
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = ("generate", "--path", REFERENCE / "openapi.json", "--output-path", tmp_path / "made", "--meta", "none")
    command = (sys.executable, "-m", "openapi_python_client", *words)
    ran = run(*command, cwd=tmp_path, PYTHONPATH=str(python_folder()), PATH=tools)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "WARNING" not in said and "Unable" not in said, said
    calls = list((tmp_path / "made" / "api").rglob("*.py"))
    assert len([path for path in calls if path.name != "__init__.py"]) == len(ROUTES)
    check = "import made.api.default.sessions_create, made.models; made.models.TurnEnded"
    assert run(sys.executable, "-c", check, cwd=tmp_path, PYTHONPATH=str(python_folder())).returncode == 0


def test_typescript_types_are_generated_with_every_path(tmp_path: Path) -> None:
    program = PARSERS.folder / "node_modules" / ".bin" / "openapi-typescript"
    ran = run(program, REFERENCE / "openapi.json", "-o", tmp_path / "made.ts", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    made = (tmp_path / "made.ts").read_text()
    for path in {route.path.replace("...}", "}") for route in ROUTES}:
        assert f'"{path}":' in made
    assert "TurnEnded:" in made
