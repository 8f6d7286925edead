// Who may share a session, the users it is shared with, and the messages about it.

import { describe, expect, it } from "vitest";
import { alreadySees, done, mayManage, refused, sharingOf, withdrawals } from "../src/state/sharing";
import type { Me, Scope } from "../src/wire/types";

const me = (user: string, ...scopes: Scope[]): Me => ({ credential: "c", user, name: user, scopes });

describe("sharing", () => {
  it("separates all users from named users", () => {
    expect(sharingOf({ owner: "ann", shared: ["*", "cy", "bob"] })).toEqual({
      owner: "ann",
      everybody: true,
      users: ["bob", "cy"],
    });
    expect(sharingOf({ owner: "", shared: [] })).toEqual({ owner: "", everybody: false, users: [] });
  });

  it("is allowed for the owner and admins, unless the device is view-only", () => {
    expect(mayManage(me("ann", "view", "chat"), "ann")).toBe(true);
    expect(mayManage(me("eve", "admin"), "ann")).toBe(true);
    expect(mayManage(me("bob", "view", "chat", "approve", "terminal"), "ann")).toBe(false);
    expect(mayManage(me("ann", "view"), "ann")).toBe(false);
    expect(mayManage(null, "ann")).toBe(false);
  });

  it("of a session whose owner was removed is allowed only for admins", () => {
    expect(mayManage(me("", "view", "chat"), "")).toBe(false);
    expect(mayManage(me("eve", "admin"), "")).toBe(true);
  });

  it("with a user who already has access is reported before it is sent", () => {
    const sharing = sharingOf({ owner: "ann", shared: ["bob"] });
    expect(alreadySees(sharing, "ann")).toBe("ann is the owner and already has access.");
    expect(alreadySees(sharing, "bob")).toBe("Already shared with bob.");
    expect(alreadySees(sharing, "cy")).toBe("");
  });

  it("with all users still allows adding a user by name", () => {
    expect(alreadySees(sharingOf({ owner: "ann", shared: ["*"] }), "bob")).toBe("");
  });

  it("ends for all users and for each named user", () => {
    expect(withdrawals(sharingOf({ owner: "ann", shared: ["bob", "*", "cy"] }))).toEqual([
      { everybody: true, remove: true },
      { user: "bob", remove: true },
      { user: "cy", remove: true },
    ]);
    expect(withdrawals(sharingOf({ owner: "ann", shared: [] }))).toEqual([]);
  });

  it("reports what was done", () => {
    expect(done({ user: "bob" })).toBe("Shared with bob.");
    expect(done({ everybody: true, remove: true })).toBe("No longer shared with everybody.");
  });

  it("explains a rejection", () => {
    const user = { code: "not_found", message: "There is no user bbo.", data: { what: "user", given: "bbo" } };
    expect(refused(user)).toContain("There is no user called “bbo”. Check the spelling");
    const session = { code: "not_found", message: "There is no session s1.", data: { what: "session", given: "s1" } };
    expect(refused(session)).toBe("This session was deleted, or it is no longer shared with you.");
    const owner = "Only its owner or an admin may share this session.";
    expect(refused({ code: "not_allowed", message: owner, data: {} })).toBe(owner);
  });
});
