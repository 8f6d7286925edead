"""The script library of both stand-ins: the scripted model API and the demo agent.

Rule: everything here is pure. A script gets one model call (the step of the prompt, the results of the tools, the
available tools) and returns the blocks of the model's answer; the caller that plays them owns the clock.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

MARKER = "SCRIPT:"

# How many characters of a tool's result the closing sentence repeats: enough to assert on, short enough to read.
QUOTED = 160


@dataclass(frozen=True, slots=True)
class ScriptText:
    """A text block, streamed in about `chunks` deltas."""

    text: str
    chunks: int = 8


@dataclass(frozen=True, slots=True)
class SlowText:
    """A text block of `count` equal deltas, `delay` seconds apart; 0 means as fast as possible."""

    text: str
    count: int
    delay: float


@dataclass(frozen=True, slots=True)
class ScriptThinking:
    """A thinking block, streamed in about `chunks` deltas."""

    text: str
    chunks: int = 6


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of one tool."""

    name: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApiError:
    """The model's API refuses this call."""

    status: int
    type: str
    message: str


class Fault(Enum):
    """What else may happen at a point of the stream."""

    CUT = "the connection to the model's API breaks"
    CRASH = "the agent's process dies; a model API can only cut the stream"
    UNKNOWN_RECORDS = "the demo agent emits records of unknown types; a model API cannot emit records"


ContentBlock = ScriptText | SlowText | ScriptThinking | ToolUse
Block = ContentBlock | ApiError | Fault


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one tool after the prompt."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model, with the fields that a script may use."""

    name: str | None
    """The script's name; None for a prompt without a marker."""
    argument: str = ""
    results: tuple[ToolResult, ...] = ()
    """The results of tools since the prompt."""
    tools: frozenset[str] = frozenset()
    """Names of the tools the model may call; empty if unknown."""
    messages: int = 1
    """How many messages the model sees."""
    attempt: int = 0
    """How often this same call was made before: retries."""

    @property
    def step(self) -> int:
        return len(self.results)

    def has(self, tool: str) -> bool:
        return not self.tools or tool in self.tools


@dataclass(frozen=True, slots=True)
class Script:
    """A row of the script table."""

    hint: str
    """What its argument is."""
    description: str
    respond: Callable[[Call], list[Block]]
    steps: int = 1
    """How many calls of the model it answers itself; later calls get the closing sentence."""


def catalogue() -> list[tuple[str, str, str]]:
    """Every script as (name, argument hint, description), in the order in which a new user would try them."""
    return [(name, script.hint, script.description) for name, script in _SCRIPTS.items()]


def parse(text: str) -> tuple[str, str] | None:
    """The last `SCRIPT:<name> [argument]` of a text, or None; the argument ends with its line."""
    start = text.rfind(MARKER)
    if start < 0:
        return None
    line = text[start + len(MARKER) :].split("\n", 1)[0].strip()
    name, _, argument = line.partition(" ")
    return (name, argument.strip()) if name else None


def respond(call: Call) -> list[Block]:
    """The blocks the scripted model answers this call with."""
    if call.name is None:
        return [ScriptText(_TOUR, chunks=60)]
    script = _SCRIPTS.get(call.name)
    if script is None:
        return [ScriptText(f"There is no script named {call.name!r}. Known scripts: {', '.join(_SCRIPTS)}.")]
    return script.respond(call) if call.step < script.steps else _done(call)


def chunks(text: str, count: int) -> list[str]:
    """A text cut into at most `count` pieces of equal length; joined they are the text."""
    if not text:
        return [""]
    size = -(-len(text) // max(1, min(count, len(text))))
    return [text[i : i + size] for i in range(0, len(text), size)]


_TOUR = (
    "Hello! I am a scripted model: nothing here is thought up, and nothing leaves this machine.\n\n"
    "Type one of these to see what a session can do:\n\n"
    "- `SCRIPT:long` streams a long text\n"
    "- `SCRIPT:think` thinks before it answers\n"
    "- `SCRIPT:write notes.txt` asks for permission and writes a file\n"
    "- `SCRIPT:question` asks you something, `SCRIPT:plan` shows a plan to approve\n"
    "- `SCRIPT:subagent tool` delegates to a subagent\n"
    "- `SCRIPT:slow` gives you time to interrupt\n"
    "- `SCRIPT:error 529` shows an error of the model's API\n\n"
    "`fairlead doctor --scripts` lists them all."
)


def _done(call: Call) -> list[Block]:
    """The closing sentence: repeats the last tool's result, so that a reader and a test can see that it arrived."""
    last = call.results[-1]
    quoted = last.text[:QUOTED]
    return [ScriptText(f"The tool failed: {quoted}" if last.is_error else f"Done. The tool said: {quoted}")]


def _number(argument: str, default: int, most: int) -> int:
    """A count typed by a person: the default for invalid input, a maximum so that no script runs for ever."""
    word = argument.split(" ", 1)[0]
    return min(int(word), most) if word.isdecimal() else default


def _bash(command: str, description: str, **more: Any) -> ToolUse:
    return ToolUse("Bash", {"command": command, "description": description, **more})


def _file(tool: str, call: Call, **more: str) -> ToolUse:
    return ToolUse(tool, {"file_path": call.argument or "demo.txt", **more})


def _long(call: Call) -> list[Block]:
    count = _number(call.argument, 200, 100_000)
    return [ScriptText(" ".join(f"word{i}" for i in range(count)), chunks=count)]


def _edit(call: Call) -> list[Block]:
    if call.step == 0:
        return [_file("Read", call)]
    return _done(call) if call.results[0].is_error else [_file("Edit", call, old_string="hello", new_string="goodbye")]


def _delegate(call: Call, *, background: bool) -> list[Block]:
    job = {
        "description": "demo job",
        "prompt": MARKER + (call.argument or "tool"),
        "subagent_type": "general-purpose",
        "run_in_background": background,
    }
    return [ScriptText("I will delegate this."), ToolUse("Agent" if call.has("Agent") else "Task", job)]


def _question(call: Call) -> list[Block]:
    options = [{"label": "Red", "description": "a warm colour"}, {"label": "Blue", "description": "a cool colour"}]
    question = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}
    return [ToolUse("AskUserQuestion", {"questions": [question]})]


def _slowtool(call: Call) -> list[Block]:
    code = f"import time;time.sleep({_number(call.argument, 30, 600)});print(1)"
    return [ScriptText("Running a slow tool."), _bash(f"python3 -c '{code}'", "slow job")]


def _todo(call: Call) -> list[Block]:
    if not call.has("TodoWrite"):
        return [ScriptText("This agent has no TodoWrite tool.")]
    todos = [
        {"content": "Look around", "status": "completed", "activeForm": "Looking around"},
        {"content": "Write it down", "status": "in_progress", "activeForm": "Writing it down"},
    ]
    return [ToolUse("TodoWrite", {"todos": todos})]


def _glob(call: Call) -> list[Block]:
    return [ToolUse("Glob", {"pattern": call.argument or "*"}) if call.has("Glob") else _bash("ls", "list files")]


_ERRORS = {
    400: ApiError(400, "invalid_request_error", "scripted bad request"),
    401: ApiError(401, "authentication_error", "invalid x-api-key"),
    429: ApiError(429, "rate_limit_error", "scripted rate limit"),
    529: ApiError(529, "overloaded_error", "Overloaded"),
}


def _cut(call: Call) -> list[Block]:
    if call.attempt:
        return [ScriptText("The second attempt came through.")]
    return [ScriptText("This stream breaks off"), Fault.CUT]


def _structured(call: Call) -> list[Block]:
    try:
        value = json.loads(call.argument or '{"x": 1}')
    except ValueError:
        return [ScriptText("The argument of this script must be a JSON object.")]
    if "StructuredOutput" in call.tools and isinstance(value, dict):
        return [ToolUse("StructuredOutput", value)]
    return [ScriptText(json.dumps(value))]


_SCRIPTS = {
    "text": Script(
        "[words]",
        "a short text, streamed",
        lambda call: [ScriptText(f"Hello from the scripted model. {call.argument}".strip())],
    ),
    "echo": Script(
        "",
        "says how many messages the model sees: proves that a resume has its history",
        lambda call: [ScriptText(f"I see {call.messages} messages.")],
    ),
    "long": Script("[words]", "a long text in as many deltas as words", _long),
    "think": Script(
        "",
        "a thinking block, then a text",
        lambda _: [ScriptThinking("Let me think about this carefully."), ScriptText("I thought about it.")],
    ),
    "tool": Script(
        "", "a harmless Bash call: echo hi", lambda _: [ScriptText("I will run a command."), _bash("echo hi", "say hi")]
    ),
    "bash": Script(
        "<command>",
        "a Bash call with your command",
        lambda call: [_bash(call.argument or "echo hi", "run the command")],
    ),
    "write": Script("<path>", "writes a small file", lambda call: [_file("Write", call, content="hello\nworld\n")]),
    "read": Script("<path>", "reads a file", lambda call: [_file("Read", call)]),
    "edit": Script("<path>", "reads a file, then replaces hello by goodbye", _edit, steps=2),
    "parallel": Script(
        "", "two Bash calls in one message", lambda _: [_bash("touch p1", "make p1"), _bash("touch p2", "make p2")]
    ),
    "twice": Script(
        "",
        "two Bash calls, one after the other",
        lambda call: [_bash(f"touch t{call.step + 1}", f"make t{call.step + 1}")],
        steps=2,
    ),
    "subagent": Script(
        "[inner script]",
        "a subagent that runs another script while the turn waits",
        lambda call: _delegate(call, background=False),
    ),
    "background": Script(
        "[inner script]",
        "a subagent in the background: the turn ends before it does",
        lambda call: _delegate(call, background=True),
    ),
    "question": Script("", "asks you to choose (AskUserQuestion)", _question),
    "plan": Script(
        "",
        "shows a plan for your approval (ExitPlanMode)",
        lambda _: [
            ScriptText("Here is my plan."),
            ToolUse("ExitPlanMode", {"plan": "1. Look at the code\n2. Change it\n3. Run the tests"}),
        ],
    ),
    "slow": Script(
        "[ticks]",
        "a text that takes its time, four ticks a second",
        lambda call: [SlowText("tick ", _number(call.argument, 20, 10_000), 0.25)],
    ),
    "slowtool": Script("[seconds]", "a Bash call that takes its time", _slowtool),
    "bgbash": Script(
        "<command>",
        "a Bash call in the background",
        lambda call: [_bash(call.argument or "echo hi", "background job", run_in_background=True)],
    ),
    "loop": Script(
        "",
        "calls a tool for ever: for --max-turns and interrupts",
        lambda call: [_bash(f"echo loop {call.step}", "loop")],
        steps=sys.maxsize,
    ),
    "mcp": Script(
        "<tool>",
        "calls an MCP tool with a=1, b=2",
        lambda call: [ToolUse(call.argument or "mcp__demo__add", {"a": 1, "b": 2})],
    ),
    "todo": Script("", "writes a list of todos (where the agent has TodoWrite)", _todo),
    "glob": Script("[pattern]", "lists files (Glob, or Bash where the agent has none)", _glob),
    "error": Script(
        "[400|401|429|529]",
        "an error of the model's API",
        lambda call: [_ERRORS.get(_number(call.argument, 400, 599), _ERRORS[400])],
    ),
    "error_once": Script(
        "",
        "overloaded at the first attempt, answers the second",
        lambda call: [ScriptText("The second attempt worked.") if call.attempt else _ERRORS[529]],
    ),
    "cut": Script("", "the model's stream breaks off at the first attempt, the second answers", _cut),
    "crash": Script(
        "", "the agent's process dies in mid turn", lambda _: [ScriptText("I am about to crash."), Fault.CRASH]
    ),
    "unknown": Script(
        "",
        "the demo agent emits records of unknown types",
        lambda _: [Fault.UNKNOWN_RECORDS, ScriptText("I emitted records of unknown types.")],
    ),
    "burst": Script(
        "<n>",
        "n text deltas as fast as possible, for load tests",
        lambda call: [SlowText("word ", _number(call.argument, 1000, 10_000_000), 0.0)],
    ),
    "structured": Script("[json]", "a structured answer (StructuredOutput), or the JSON as text", _structured),
}
