// A program on the official TypeScript SDK. Each step prints one line of JSON.
//
//     node typescript_sdk.mjs SDK CLI FOLDER

const [sdk, cli, folder] = process.argv.slice(2);
const { query } = await import(sdk);
const say = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`);

let hooked = 0;
let asked = 0;
let next;
const turns = ["SCRIPT:text hello", "SCRIPT:bash touch made", "SCRIPT:bash touch wait"];

async function* prompts() {
  for (const text of turns) {
    const over = new Promise((resolve) => (next = resolve));
    yield { type: "user", message: { role: "user", content: text }, parent_tool_use_id: null, session_id: "" };
    await over;
  }
}

const conversation = query({
  prompt: prompts(),
  options: {
    cwd: folder,
    pathToClaudeCodeExecutable: cli,
    settingSources: [],
    canUseTool: async (name, input) => {
      asked += 1;
      say({ asked: name });
      if (JSON.stringify(input).includes("wait")) await new Promise(() => {});
      return { behavior: "allow", updatedInput: input };
    },
    hooks: { PreToolUse: [{ hooks: [async () => ((hooked += 1), {})] }] },
  },
});
for await (const message of conversation) {
  if (message.type === "system" && message.subtype === "init") say({ session: message.session_id });
  if (message.type === "result") {
    say({ result: message.subtype, text: message.result, hooked, asked });
    next();
  }
}
