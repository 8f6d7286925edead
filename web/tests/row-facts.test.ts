// The second line of a row in the list of sessions.

import { describe, expect, it } from "vitest";
import { rowFacts } from "../src/state/row-facts";
import type { Summary } from "../src/wire/types";

const summary = (fields: Partial<Summary>) => ({ state: "idle", branch: "", turns: 2, ...fields }) as Summary;

describe("the facts of a session", () => {
  it("name the node only where several gateways share a store", () => {
    expect(rowFacts(summary({ node: "paris", branch: "main" }), "idle")).toEqual(["main", "on paris", "2 turns"]);
    expect(rowFacts(summary({ node: "" }), "idle")).toEqual(["2 turns"]);
    expect(rowFacts(summary({}), "working")).toEqual(["working", "2 turns"]);
  });
});
