// Pages on AG-UI's own HttpAgent, driven by lines of JSON: each names a page and what it does, and is answered by a line.
// Usage: node pages.mjs NODE_MODULES URL TOKEN
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, url, token] = process.argv.slice(2);
const { HttpAgent, buildResumeArray } = createRequire(`${modules}/`)("@ag-ui/client");
const pages = new Map();

function page(name, threadId) {
  if (!pages.has(name)) {
    const headers = { Authorization: `Bearer ${token}` };
    pages.set(name, { agent: new HttpAgent({ url, threadId, headers }), events: [] });
  }
  return pages.get(name);
}

async function run({ agent, events }, task) {
  events.length = 0;
  if (task.text) agent.messages.push({ id: task.id ?? crypto.randomUUID(), role: "user", content: task.text });
  const answers = Object.fromEntries(agent.pendingInterrupts.map((one) => [one.id, task.answer]));
  const resume = task.answer ? { resume: buildResumeArray(agent.pendingInterrupts, answers) } : {};
  const watch = {
    onEvent: ({ event }) => {
      events.push(event);
      if (task.abortAt === event.type) agent.abortRun();
    },
  };
  const failures = [];
  watch.onRunFailed = ({ error }) => void failures.push(String(error));
  try {
    await agent.runAgent({ ...resume, ...task.input }, watch);
  } catch (error) {
    failures.push(String(error));
  }
  return { events, failures, messages: agent.messages, state: agent.state, pending: agent.pendingInterrupts };
}

console.warn = (...words) => console.log(JSON.stringify({ warning: words.map(String).join(" ") }));
console.error = () => {};
for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  console.log(JSON.stringify(await run(page(task.page, task.thread), task)));
}
process.exit(0);
