// The inbox: open requests stay, settled ones are folded away with their outcome.

import { expect, it } from "vitest";
import type { Notice } from "../src/live/notices";
import { inbox } from "../src/state/inbox";

const notice = (seq: number, kind: string, requestId?: string): Notice => ({
  seq,
  at: seq,
  kind,
  title: "",
  message: "",
  ...(requestId ? { meta: { requestId } } : {}),
});

it("keeps open requests and other notices, and folds the settled ones", () => {
  const all = [
    notice(5, "turn.completed"),
    notice(4, "permission.settled", "a"),
    notice(3, "permission.asked", "b"),
    notice(2, "permission.asked", "a"),
    notice(1, "session.created"),
  ];
  const { shown, settled } = inbox(all);
  expect(shown.map((one) => one.seq)).toEqual([5, 3, 1]);
  expect(settled.map((one) => one.seq)).toEqual([4]);
});
