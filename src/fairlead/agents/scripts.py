"""The script library of the demo agent and of the scripted models of tests. Pure.

`respond` gets one model call (the step of the prompt, the results of the tools, the available tools) and returns the
blocks of the model's answer; the caller that plays them owns the clock.
"""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

MARKER = "SCRIPT:"

# How many characters of a tool's result the closing sentence repeats: enough to assert on, short enough to read.
QUOTED = 160


@dataclass(frozen=True, slots=True)
class ScriptText:
    """A text or thinking block, streamed in about `chunks` deltas."""

    text: str
    chunks: int = 8
    kind: Literal["text", "thinking"] = "text"


@dataclass(frozen=True, slots=True)
class SlowText:
    """A text block of `count` equal deltas, `delay` seconds apart; 0 means as fast as possible."""

    text: str
    count: int
    delay: float


@dataclass(frozen=True, slots=True)
class ToolUse:
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


ContentBlock = ScriptText | SlowText | ToolUse
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


_CATALOGUE = {
    "text": ("[words]", "a short text, streamed"),
    "echo": ("", "says how many messages the model sees: proves that a resume has its history"),
    "long": ("[words]", "a long text in as many deltas as words"),
    "think": ("", "a thinking block, then a text"),
    "tool": ("", "a harmless Bash call: echo hi"),
    "bash": ("<command>", "a Bash call with your command"),
    "write": ("<path>", "writes a small file"),
    "read": ("<path>", "reads a file"),
    "edit": ("<path>", "reads a file, then replaces hello by goodbye"),
    "parallel": ("", "two Bash calls in one message"),
    "twice": ("", "two Bash calls, one after the other"),
    "subagent": ("[inner script]", "a subagent that runs another script while the turn waits"),
    "background": ("[inner script]", "a subagent in the background: the turn ends before it does"),
    "question": ("", "asks you to choose (AskUserQuestion)"),
    "plan": ("", "shows a plan for your approval (ExitPlanMode)"),
    "slow": ("[ticks]", "a text that takes its time, four ticks a second"),
    "slowtool": ("[seconds]", "a Bash call that takes its time"),
    "bgbash": ("<command>", "a Bash call in the background"),
    "loop": ("[N]", "calls a tool N times, or for ever: for --max-turns and interrupts"),
    "mcp": ("<tool> [json]", "calls an MCP tool, with a=1, b=2 unless given"),
    "todo": ("", "writes a list of todos (where the agent has TodoWrite)"),
    "glob": ("[pattern]", "lists files (Glob, or Bash where the agent has none)"),
    "error": ("[400|401|429|529]", "an error of the model's API"),
    "error_once": ("", "overloaded at the first attempt, answers the second"),
    "cut": ("", "the model's stream breaks off at the first attempt, the second answers"),
    "crash": ("", "the agent's process dies in mid turn"),
    "unknown": ("", "the demo agent emits records of unknown types"),
    "burst": ("<n>", "n text deltas as fast as possible, for load tests"),
    "structured": ("[json]", "a structured answer (StructuredOutput), or the JSON as text"),
}
"""Every script with the hint for its argument and its description, in the order in which a new user would try them."""

_ERRORS = {
    400: ApiError(400, "invalid_request_error", "scripted bad request"),
    401: ApiError(401, "authentication_error", "invalid x-api-key"),
    429: ApiError(429, "rate_limit_error", "scripted rate limit"),
    529: ApiError(529, "overloaded_error", "Overloaded"),
}
_COLOURS = [{"label": "Red", "description": "a warm colour"}, {"label": "Blue", "description": "a cool colour"}]
_QUESTION = {"question": "Which colour?", "header": "Colour", "options": _COLOURS, "multiSelect": False}
_PLAN = "1. Look at the code\n2. Change it\n3. Run the tests"
_TODOS = [
    {"content": "Look around", "status": "completed", "activeForm": "Looking around"},
    {"content": "Write it down", "status": "in_progress", "activeForm": "Writing it down"},
]
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


_ENDLESS = 1_000_000


def catalogue() -> list[tuple[str, str, str]]:
    """Every script as (name, argument hint, description)."""
    return [(name, *about) for name, about in _CATALOGUE.items()]


def parse(text: str) -> tuple[str, str] | None:
    """The last `SCRIPT:<name> [argument]` of a text, or None; the argument ends with its line."""
    start = text.rfind(MARKER)
    if start < 0:
        return None
    line = text[start + len(MARKER) :].split("\n", 1)[0].strip()
    name, _, argument = line.partition(" ")
    return (name, argument.strip()) if name else None


def respond(call: Call) -> list[Block]:
    argument = call.argument
    path = {"file_path": argument or "demo.txt"}
    match call.name:
        case None:
            return [ScriptText(_TOUR, chunks=60)]
        case "edit" if call.step == 1 and not call.results[0].is_error:
            return [ToolUse("Edit", path | {"old_string": "hello", "new_string": "goodbye"})]
        case "twice" if call.step < 2:
            return [_bash(f"touch t{call.step + 1}", f"make t{call.step + 1}")]
        case "loop" if call.step < _number(argument, _ENDLESS, _ENDLESS):
            return [_bash(f"echo loop {call.step}", "loop")]
        case _ if call.results:
            return _done(call.results[-1])
        case "text":
            return [ScriptText(f"Hello from the scripted model. {argument}".strip())]
        case "echo":
            return [ScriptText(f"I see {call.messages} messages.")]
        case "long":
            count = _number(argument, 200, 100_000)
            return [ScriptText(" ".join(f"word{i}" for i in range(count)), chunks=count)]
        case "think":
            return [ScriptText("Let me think about this carefully.", 6, "thinking"), ScriptText("I thought about it.")]
        case "tool":
            return [ScriptText("I will run a command."), _bash("echo hi", "say hi")]
        case "bash":
            return [_bash(argument or "echo hi", "run the command")]
        case "write":
            return [ToolUse("Write", path | {"content": "hello\nworld\n"})]
        case "read" | "edit":
            return [ToolUse("Read", path)]
        case "parallel":
            return [_bash("touch p1", "make p1"), _bash("touch p2", "make p2")]
        case "subagent" | "background":
            job = {"description": "demo job", "prompt": MARKER + (argument or "tool")}
            job_kind = {"subagent_type": "general-purpose", "run_in_background": call.name == "background"}
            return [
                ScriptText("I will delegate this."),
                ToolUse("Agent" if call.has("Agent") else "Task", job | job_kind),
            ]
        case "question":
            return [ToolUse("AskUserQuestion", {"questions": [_QUESTION]})]
        case "plan":
            return [ScriptText("Here is my plan."), ToolUse("ExitPlanMode", {"plan": _PLAN})]
        case "slow":
            return [SlowText("tick ", _number(argument, 20, 10_000), 0.25)]
        case "slowtool":
            code = f"import time;time.sleep({_number(argument, 30, 600)});print(1)"
            return [ScriptText("Running a slow tool."), _bash(f"python3 -c '{code}'", "slow job")]
        case "bgbash":
            return [_bash(argument or "echo hi", "background job", run_in_background=True)]
        case "mcp":
            return _mcp(argument)
        case "todo":
            has = call.has("TodoWrite")
            return [ToolUse("TodoWrite", {"todos": _TODOS}) if has else ScriptText("This agent has no TodoWrite tool.")]
        case "glob":
            return [ToolUse("Glob", {"pattern": argument or "*"}) if call.has("Glob") else _bash("ls", "list files")]
        case "error":
            return [_ERRORS.get(_number(argument, 400, 599), _ERRORS[400])]
        case "error_once":
            return [ScriptText("The second attempt worked.") if call.attempt else _ERRORS[529]]
        case "cut" if call.attempt:
            return [ScriptText("The second attempt came through.")]
        case "cut":
            return [ScriptText("This stream breaks off"), Fault.CUT]
        case "crash":
            return [ScriptText("I am about to crash."), Fault.CRASH]
        case "unknown":
            return [Fault.UNKNOWN_RECORDS, ScriptText("I emitted records of unknown types.")]
        case "burst":
            return [SlowText("word ", _number(argument, 1000, 10_000_000), 0.0)]
        case "structured":
            return _structured(call)
    return [ScriptText(f"There is no script named {call.name!r}. Known scripts: {', '.join(_CATALOGUE)}.")]


def _done(last: ToolResult) -> list[Block]:
    """The closing sentence: repeats the last tool's result, so that a reader and a test can see that it arrived."""
    quoted = last.text[:QUOTED]
    return [ScriptText(f"The tool failed: {quoted}" if last.is_error else f"Done. The tool said: {quoted}")]


def _mcp(argument: str) -> list[Block]:
    tool, _, given = argument.partition(" ")
    try:
        value = json.loads(given or '{"a": 1, "b": 2}')
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return [ScriptText("The argument of this script must be a tool and a JSON object.")]
    return [ToolUse(tool or "mcp__demo__add", value)]


def _structured(call: Call) -> list[Block]:
    try:
        value = json.loads(call.argument or '{"x": 1}')
    except ValueError:
        return [ScriptText("The argument of this script must be a JSON object.")]
    if "StructuredOutput" in call.tools and isinstance(value, dict):
        return [ToolUse("StructuredOutput", value)]
    return [ScriptText(json.dumps(value))]


def _bash(command: str, description: str, **more: Any) -> ToolUse:
    return ToolUse("Bash", {"command": command, "description": description, **more})


def _number(argument: str, default: int, most: int) -> int:
    """A count typed by a person: the default for invalid input, a maximum so that no script runs for ever."""
    word = argument.split(" ", 1)[0]
    return min(int(word), most) if word.isdecimal() else default


def chunks(text: str, count: int) -> list[str]:
    """A text cut into at most `count` pieces of equal length; joined they are the text."""
    if not text:
        return [""]
    size = -(-len(text) // max(1, min(count, len(text))))
    return [text[i : i + size] for i in range(0, len(text), size)]
