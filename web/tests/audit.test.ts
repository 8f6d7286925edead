import { expect, test } from "vitest";
import { detailsOf, whoOf } from "../src/state/audit";

const entry = { n: 7, at: 1, action: "permission.answer" };

test("an entry names the person, the agent or the gateway", () => {
  expect(whoOf({ ...entry, user: "ann", name: "ann (laptop)" })).toBe("ann (laptop)");
  expect(whoOf({ ...entry, user: "ann", name: "ann (laptop)", agent: true })).toBe("ann (laptop), by an agent");
  expect(whoOf({ ...entry, action: "gateway.start" })).toBe("The gateway");
  expect(whoOf({ ...entry, action: "sign_in.failed" })).toBe("Unknown");
});

test("details are one line, whatever the data is", () => {
  const data = { decision: "allow", remember: ["Bash(ls:*)", "Read"], changed_input: true, key: { a: 1 } };
  expect(detailsOf({ ...entry, data })).toBe(
    'decision: allow, remember: Bash(ls:*) Read, changed_input: yes, key: {"a":1}',
  );
  expect(detailsOf({ ...entry, action: "failed", of: 6, data: { code: "stale\nx" } })).not.toContain("\n");
  expect(detailsOf(entry)).toBe("");
});
