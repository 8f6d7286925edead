"""The script library of both stand-ins: the scripted model API and the demo agent.

Pure. A script gets one model call (the step of the prompt, the results of the tools, the
available tools) and returns the blocks of the model's answer; the caller that plays them owns the clock.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CutStream:
    """The connection to the model's API breaks at this point of the stream."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The agent's process dies at this point of the stream; a model API can only cut the stream."""


@dataclass(frozen=True, slots=True)
class UnknownRecords:
    """The demo agent emits records of unknown types; a model API cannot emit records."""


ContentBlock = ScriptText | SlowText | ScriptThinking | ToolUse
Block = ContentBlock | ApiError | CutStream | Crash | UnknownRecords


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


Script = Callable[[Call], list[Block]]

_SCRIPTS: dict[str, tuple[str, str, Script]] = {}
"""Each script with the hint for its argument and its description."""


def _script(name: str, hint: str, description: str) -> Callable[[Script], Script]:
    def register(run: Script) -> Script:
        _SCRIPTS[name] = (hint, description, run)
        return run

    return register


def catalogue() -> list[tuple[str, str, str]]:
    """Every script as (name, argument hint, description), in the order in which a new user would try them."""
    return [(name, hint, description) for name, (hint, description, _) in _SCRIPTS.items()]


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
        return [ScriptText(_tour(), chunks=60)]
    if call.name not in _SCRIPTS:
        return [ScriptText(f"There is no script named {call.name!r}. Known scripts: {', '.join(_SCRIPTS)}.")]
    return _SCRIPTS[call.name][2](call)


def _tour() -> str:
    return (
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
    if not call.results:
        return [ScriptText("Done.")]
    last = call.results[-1]
    quoted = last.text[:QUOTED]
    return [ScriptText(f"The tool failed: {quoted}" if last.is_error else f"Done. The tool said: {quoted}")]


def _number(argument: str, default: int, most: int) -> int:
    """A count typed by a person: the default for invalid input, a maximum so that no script runs for ever."""
    word = argument.split(" ", 1)[0]
    return min(int(word), most) if word.isdecimal() else default


def _once(call: Call, *blocks: Block) -> list[Block]:
    return list(blocks) if call.step == 0 else _done(call)


def _bash(command: str, description: str, **more: Any) -> ToolUse:
    return ToolUse("Bash", {"command": command, "description": description, **more})


@_script("text", "[words]", "a short text, streamed")
def _text(call: Call) -> list[Block]:
    return [ScriptText(f"Hello from the scripted model. {call.argument}".strip())]


@_script("echo", "", "says how many messages the model sees: proves that a resume has its history")
def _echo(call: Call) -> list[Block]:
    return [ScriptText(f"I see {call.messages} messages.")]


@_script("long", "[words]", "a long text in as many deltas as words")
def _long(call: Call) -> list[Block]:
    count = _number(call.argument, 200, 100_000)
    return [ScriptText(" ".join(f"word{i}" for i in range(count)), chunks=count)]


@_script("think", "", "a thinking block, then a text")
def _think(call: Call) -> list[Block]:
    return [ScriptThinking("Let me think about this carefully."), ScriptText("I thought about it.")]


@_script("tool", "", "a harmless Bash call: echo hi")
def _tool(call: Call) -> list[Block]:
    return _once(call, ScriptText("I will run a command."), _bash("echo hi", "say hi"))


@_script("bash", "<command>", "a Bash call with your command")
def _bash_command(call: Call) -> list[Block]:
    return _once(call, _bash(call.argument or "echo hi", "run the command"))


@_script("write", "<path>", "writes a small file")
def _write(call: Call) -> list[Block]:
    path = call.argument or "demo.txt"
    return _once(call, ToolUse("Write", {"file_path": path, "content": "hello\nworld\n"}))


@_script("read", "<path>", "reads a file")
def _read(call: Call) -> list[Block]:
    return _once(call, ToolUse("Read", {"file_path": call.argument or "demo.txt"}))


@_script("edit", "<path>", "reads a file, then replaces hello by goodbye")
def _edit(call: Call) -> list[Block]:
    path = call.argument or "demo.txt"
    if call.step == 0:
        return [ToolUse("Read", {"file_path": path})]
    if call.step == 1 and not call.results[0].is_error:
        return [ToolUse("Edit", {"file_path": path, "old_string": "hello", "new_string": "goodbye"})]
    return _done(call)


@_script("parallel", "", "two Bash calls in one message")
def _parallel(call: Call) -> list[Block]:
    return _once(call, _bash("touch p1", "make p1"), _bash("touch p2", "make p2"))


@_script("twice", "", "two Bash calls, one after the other")
def _twice(call: Call) -> list[Block]:
    if call.step < 2:
        return [_bash(f"touch t{call.step + 1}", f"make t{call.step + 1}")]
    return _done(call)


def _delegate(call: Call, *, background: bool) -> list[Block]:
    job = {
        "description": "demo job",
        "prompt": MARKER + (call.argument or "tool"),
        "subagent_type": "general-purpose",
        "run_in_background": background,
    }
    return _once(call, ScriptText("I will delegate this."), ToolUse("Agent" if call.has("Agent") else "Task", job))


@_script("subagent", "[inner script]", "a subagent that runs another script while the turn waits")
def _subagent(call: Call) -> list[Block]:
    return _delegate(call, background=False)


@_script("background", "[inner script]", "a subagent in the background: the turn ends before it does")
def _background(call: Call) -> list[Block]:
    return _delegate(call, background=True)


@_script("question", "", "asks you to choose (AskUserQuestion)")
def _question(call: Call) -> list[Block]:
    options = [{"label": "Red", "description": "a warm colour"}, {"label": "Blue", "description": "a cool colour"}]
    question = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}
    return _once(call, ToolUse("AskUserQuestion", {"questions": [question]}))


@_script("plan", "", "shows a plan for your approval (ExitPlanMode)")
def _plan(call: Call) -> list[Block]:
    steps = "1. Look at the code\n2. Change it\n3. Run the tests"
    return _once(call, ScriptText("Here is my plan."), ToolUse("ExitPlanMode", {"plan": steps}))


@_script("slow", "[ticks]", "a text that takes its time, four ticks a second")
def _slow(call: Call) -> list[Block]:
    return [SlowText("tick ", _number(call.argument, 20, 10_000), 0.25)]


@_script("slowtool", "[seconds]", "a Bash call that takes its time")
def _slowtool(call: Call) -> list[Block]:
    seconds = _number(call.argument, 30, 600)
    code = f"import time;time.sleep({seconds});print(1)"
    return _once(call, ScriptText("Running a slow tool."), _bash(f"python3 -c '{code}'", "slow job"))


@_script("bgbash", "<command>", "a Bash call in the background")
def _bgbash(call: Call) -> list[Block]:
    return _once(call, _bash(call.argument or "echo hi", "background job", run_in_background=True))


@_script("loop", "", "calls a tool for ever: for --max-turns and interrupts")
def _loop(call: Call) -> list[Block]:
    return [_bash(f"echo loop {call.step}", "loop")]


@_script("mcp", "<tool>", "calls an MCP tool with a=1, b=2")
def _mcp(call: Call) -> list[Block]:
    return _once(call, ToolUse(call.argument or "mcp__demo__add", {"a": 1, "b": 2}))


@_script("todo", "", "writes a list of todos (where the agent has TodoWrite)")
def _todo(call: Call) -> list[Block]:
    if not call.has("TodoWrite"):
        return [ScriptText("This agent has no TodoWrite tool.")]
    todos = [
        {"content": "Look around", "status": "completed", "activeForm": "Looking around"},
        {"content": "Write it down", "status": "in_progress", "activeForm": "Writing it down"},
    ]
    return _once(call, ToolUse("TodoWrite", {"todos": todos}))


@_script("glob", "[pattern]", "lists files (Glob, or Bash where the agent has none)")
def _glob(call: Call) -> list[Block]:
    if call.has("Glob"):
        return _once(call, ToolUse("Glob", {"pattern": call.argument or "*"}))
    return _once(call, _bash("ls", "list files"))


_ERRORS = {
    400: ApiError(400, "invalid_request_error", "scripted bad request"),
    401: ApiError(401, "authentication_error", "invalid x-api-key"),
    429: ApiError(429, "rate_limit_error", "scripted rate limit"),
    529: ApiError(529, "overloaded_error", "Overloaded"),
}


@_script("error", "[400|401|429|529]", "an error of the model's API")
def _error(call: Call) -> list[Block]:
    return [_ERRORS.get(_number(call.argument, 400, 599), _ERRORS[400])]


@_script("error_once", "", "overloaded at the first attempt, answers the second")
def _error_once(call: Call) -> list[Block]:
    return [_ERRORS[529]] if call.attempt == 0 else [ScriptText("The second attempt worked.")]


@_script("cut", "", "the model's stream breaks off at the first attempt, the second answers")
def _cut(call: Call) -> list[Block]:
    if call.attempt == 0:
        return [ScriptText("This stream breaks off"), CutStream()]
    return [ScriptText("The second attempt came through.")]


@_script("crash", "", "the agent's process dies in mid turn")
def _crash(call: Call) -> list[Block]:
    return [ScriptText("I am about to crash."), Crash()]


@_script("unknown", "", "the demo agent emits records of unknown types")
def _unknown(call: Call) -> list[Block]:
    return [UnknownRecords(), ScriptText("I emitted records of unknown types.")]


@_script("burst", "<n>", "n text deltas as fast as possible, for load tests")
def _burst(call: Call) -> list[Block]:
    return [SlowText("word ", _number(call.argument, 1000, 10_000_000), 0.0)]


@_script("structured", "[json]", "a structured answer (StructuredOutput), or the JSON as text")
def _structured(call: Call) -> list[Block]:
    try:
        value = json.loads(call.argument or '{"x": 1}')
    except ValueError:
        return [ScriptText("The argument of this script must be a JSON object.")]
    if "StructuredOutput" in call.tools and isinstance(value, dict):
        return _once(call, ToolUse("StructuredOutput", value))
    return [ScriptText(json.dumps(value))]


def chunks(text: str, count: int) -> list[str]:
    """A text cut into at most `count` pieces of equal length; joined they are the text."""
    if not text:
        return [""]
    size = -(-len(text) // max(1, min(count, len(text))))
    return [text[i : i + size] for i in range(0, len(text), size)]
