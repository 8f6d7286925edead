// Who may share a session, with whom it is shared, and what is said about it.

import { describe, expect, it } from "vitest";
import { alreadySees, done, mayManage, refused, sharingOf, withdrawals } from "../src/state/sharing";
import type { Me, Scope } from "../src/wire/types";

const me = (user: string, ...scopes: Scope[]): Me => ({ credential: "c", user, name: user, scopes });

describe("sharing", () => {
  it("tells everybody from users by name", () => {
    expect(sharingOf({ owner: "ann", shared: ["*", "cy", "bob"] })).toEqual({
      owner: "ann",
      everybody: true,
      users: ["bob", "cy"],
    });
    expect(sharingOf({ owner: "", shared: [] })).toEqual({ owner: "", everybody: false, users: [] });
  });

  it("is the owner's and the admins' to decide, with a device that may do more than look", () => {
    expect(mayManage(me("ann", "view", "chat"), "ann")).toBe(true);
    expect(mayManage(me("eve", "admin"), "ann")).toBe(true);
    expect(mayManage(me("bob", "view", "chat", "approve", "terminal"), "ann")).toBe(false);
    expect(mayManage(me("ann", "view"), "ann")).toBe(false);
    expect(mayManage(null, "ann")).toBe(false);
  });

  it("of a session whose owner was removed is the admins' alone", () => {
    expect(mayManage(me("", "view", "chat"), "")).toBe(false);
    expect(mayManage(me("eve", "admin"), "")).toBe(true);
  });

  it("with somebody who sees it already is said before it is tried", () => {
    const sharing = sharingOf({ owner: "ann", shared: ["bob"] });
    expect(alreadySees(sharing, "ann")).toBe("ann is the owner and already has access.");
    expect(alreadySees(sharing, "bob")).toBe("Already shared with bob.");
    expect(alreadySees(sharing, "cy")).toBe("");
  });

  it("with everybody does not keep a user from being named for the time after", () => {
    expect(alreadySees(sharingOf({ owner: "ann", shared: ["*"] }), "bob")).toBe("");
  });

  it("ends for everybody and for each by name", () => {
    expect(withdrawals(sharingOf({ owner: "ann", shared: ["bob", "*", "cy"] }))).toEqual([
      { everybody: true, remove: true },
      { user: "bob", remove: true },
      { user: "cy", remove: true },
    ]);
    expect(withdrawals(sharingOf({ owner: "ann", shared: [] }))).toEqual([]);
  });

  it("says what was done", () => {
    expect(done({ user: "bob" })).toBe("Shared with bob.");
    expect(done({ everybody: true, remove: true })).toBe("No longer shared with everyone.");
  });

  it("says in plain words why it was refused", () => {
    const user = { code: "not_found", message: "There is no user bbo.", data: { what: "user", given: "bbo" } };
    expect(refused(user)).toContain("There is no user called “bbo”. Check the spelling");
    const session = { code: "not_found", message: "There is no session s1.", data: { what: "session", given: "s1" } };
    expect(refused(session)).toBe("This session was deleted, or it is no longer shared with you.");
    const owner = "Only its owner or an admin may share this session.";
    expect(refused({ code: "not_allowed", message: owner, data: {} })).toBe(owner);
  });
});
