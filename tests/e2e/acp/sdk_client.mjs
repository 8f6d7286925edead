// A client on the TypeScript SDK of ACP, over the WebSocket /acp. It plays one scenario and prints what it saw, one JSON
// object per line; the test in test_acp_editors.py checks it and plays the phone.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, url, token, cwd] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const load = (path) => import(pathToFileURL(`${modules}/@agentclientprotocol/sdk/dist/${path}`).href);
const { client, methods, PROTOCOL_VERSION } = await load("v1/stable/acp.js");
const { createWebSocketStream } = await load("transports/ws-stream.js");
const { WebSocket } = require("ws");

const print = (what, value) => console.log(JSON.stringify({ what, value }));
let updates = [];
const text = () =>
  updates.filter((one) => one.sessionUpdate === "agent_message_chunk").map((one) => one.content.text).join("");
const until = async (holds) => {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
};

let choose = "allow_once";
const editor = client({ name: "fairlead-tests" })
  .onNotification(methods.client.session.update, ({ params }) => void updates.push(params.update))
  .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
    if (choose === "wait") {
      print("waiting", params.toolCall.title);
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      print("withdrawn", true);
      return { outcome: { outcome: "cancelled" } };
    }
    const option = params.options.find((one) => one.kind === choose);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onRequest(methods.client.elicitation.create, ({ params }) => {
    print("form", params.requestedSchema.properties);
    return { action: "accept", content: { question0: "Blue" } };
  });

const stream = createWebSocketStream(url, { WebSocket, headers: { Authorization: `Bearer ${token}` } });
await editor.connectWith(stream, async (agent) => {
  const call = (method, params) => agent.request(method, params);
  const prompt = (sessionId, words) =>
    call(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });

  const clientCapabilities = { elicitation: { form: {} }, session: { notices: {} } };
  const hello = await call(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities });
  print("initialize", hello);
  const { sessionId, modes } = await call(methods.agent.session.new, { cwd, mcpServers: [] });
  print("new", { sessionId, modes: modes.availableModes.map((mode) => mode.id) });

  print("write", { ...(await prompt(sessionId, "SCRIPT:write sdk.txt")), text: text() });
  print("question", { ...(await prompt(sessionId, "SCRIPT:question")), text: text() });
  choose = "reject_once";
  print("denied", await prompt(sessionId, "SCRIPT:write denied.txt"));

  choose = "wait";
  print("phone", await prompt(sessionId, "SCRIPT:bash touch phone"));

  updates = [];
  const running = prompt(sessionId, "SCRIPT:slow 4000");
  await until(() => text().includes("tick"));
  await agent.notify(methods.agent.session.cancel, { sessionId });
  print("cancelled", await running);

  const live = text();
  updates = [];
  await call(methods.agent.session.load, { sessionId, cwd, mcpServers: [] });
  const calls = updates.filter((one) => one.sessionUpdate === "tool_call").map((one) => one.title);
  print("load", { users: updates.filter((one) => one.sessionUpdate === "user_message_chunk").length, calls, live: text().endsWith(live) });

  await call(methods.agent.session.setMode, { sessionId, modeId: "plan" });
  const set = { sessionId, configId: "mode", value: "acceptEdits" };
  const { configOptions } = await call(methods.agent.session.setConfigOption, set);
  await until(() => updates.some((one) => one.currentModeId === "acceptEdits"));
  print("options", Object.fromEntries(configOptions.map((one) => [one.id, one.currentValue])));

  const { sessions } = await call(methods.agent.session.list, {});
  print("list", sessions.map((one) => [one.sessionId, one.cwd]));
  await call(methods.agent.session.resume, { sessionId, cwd, mcpServers: [] });
  print("close", await call(methods.agent.session.close, { sessionId }));
  const refused = await prompt(sessionId, "too late").catch((error) => error.code);
  print("refused", refused);
});
