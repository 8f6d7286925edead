// The socket: every subscription resumed at its place, every command done once, no hole passed over in silence.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Place, Watcher, Wire as WireClass } from "../src/wire/socket";
import type { Event } from "../src/wire/types";

type Frame = Record<string, unknown>;

class FakeSocket {
  static readonly OPEN = 1;
  static all: FakeSocket[] = [];
  readyState = 0;
  sent: Frame[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((closed: { code: number }) => void) | null = null;

  constructor(readonly url: URL) {
    FakeSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Frame);
  }

  close(): void {
    this.readyState = 3;
  }

  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  say(frame: Frame): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  drop(code = 1006): void {
    this.readyState = 3;
    this.onclose?.({ code });
  }

  asked(type: string): Frame[] {
    return this.sent.filter((frame) => frame["type"] === type);
  }
}

class Seen implements Watcher {
  answers: string[] = [];
  seqs: number[] = [];
  subscribed(answer: { verdict: string }): void {
    this.answers.push(answer.verdict);
  }
  event(event: Event): void {
    this.seqs.push(event.seq);
  }
  failed(error: { code: string }): void {
    this.answers.push(error.code);
  }
}

let Wire: typeof WireClass;
let refused = "";

beforeEach(async () => {
  vi.useFakeTimers();
  vi.resetModules();
  FakeSocket.all = [];
  refused = "";
  const kept = new Map([["fairlead.key", "fl_key"]]);
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => kept.set(name, value),
    removeItem: (name: string) => kept.delete(name),
  });
  vi.stubGlobal("location", { href: "https://gateway.test/app", protocol: "https:" });
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("fetch", async () =>
    refused
      ? Response.json({ error: { code: refused, message: "no" } }, { status: 401 })
      : Response.json({ ticket: "t/1" }),
  );
  ({ Wire } = await import("../src/wire/socket"));
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function connected(wire: WireClass): Promise<FakeSocket> {
  const before = FakeSocket.all.length;
  if (!before) wire.start();
  await vi.advanceTimersByTimeAsync(before ? 20_000 : 0);
  const socket = FakeSocket.all.at(-1)!;
  expect(FakeSocket.all.length).toBe(before + 1);
  socket.open();
  return socket;
}

function subscribed(socket: FakeSocket, head: number, verdict = "ok", log_id = "L"): void {
  const asked = socket.asked("subscribe").at(-1)!;
  socket.say({ type: "subscribed", id: asked["id"], session: asked["session"], verdict, log_id, head });
}

const event = (seq: number, prev = seq - 1, type = "notice"): Frame => ({ type, seq, prev, session: "s", id: `e${seq}` });

function watching(wire: WireClass, place: Place | null = { after: 0, log_id: "" }): Seen {
  const seen = new Seen();
  wire.subscribe("s", place, seen);
  return seen;
}

describe("the socket", () => {
  it("is opened with a ticket, over TLS where the page is", async () => {
    const wire = new Wire();
    const socket = await connected(wire);
    expect(String(socket.url)).toBe("wss://gateway.test/v1/ws?ticket=t%2F1");
    expect(wire.status.value).toBe("live");
    socket.drop();
    expect(wire.status.value).toBe("offline");
  });

  it("resumes at its place, and hears nothing twice", async () => {
    const wire = new Wire();
    const seen = watching(wire);
    const first = await connected(wire);
    subscribed(first, 2);
    [1, 2, 2, 3].forEach((seq) => first.say(event(seq)));
    first.drop();
    const second = await connected(wire);
    expect(second.asked("subscribe")).toMatchObject([{ session: "s", after: 3, log_id: "L" }]);
    second.say(event(4));
    expect(seen.seqs).toEqual([1, 2, 3]);
    subscribed(second, 4);
    [3, 4].forEach((seq) => second.say(event(seq)));
    expect(seen.seqs).toEqual([1, 2, 3, 4]);
    expect(seen.answers).toEqual(["ok", "ok"]);
  });

  it("asks again where something is missing, and takes what the log really lacks", async () => {
    const wire = new Wire();
    const seen = watching(wire);
    const socket = await connected(wire);
    subscribed(socket, 9);
    socket.say(event(1));
    socket.say(event(5));
    expect(seen.seqs).toEqual([1]);
    expect(socket.asked("subscribe")).toHaveLength(2);
    expect(socket.asked("subscribe")[1]).toMatchObject({ after: 1 });
    subscribed(socket, 9);
    socket.say(event(5, 4));
    expect(seen.seqs).toEqual([1, 5]);
  });

  it("begins anew after a gap", async () => {
    const wire = new Wire();
    const seen = watching(wire, { after: 40, log_id: "old" });
    const socket = await connected(wire);
    subscribed(socket, 2, "gap", "new");
    [1, 2].forEach((seq) => socket.say(event(seq)));
    expect([seen.answers, seen.seqs]).toEqual([["gap"], [1, 2]]);
  });

  it("sends a command again under its key until it is answered, and then no more", async () => {
    const wire = new Wire();
    const done = wire.command("send", { session: "s", text: "hello" });
    const first = await connected(wire);
    const [asked] = first.asked("send");
    expect(asked).toMatchObject({ text: "hello", session: "s" });
    first.drop();
    const second = await connected(wire);
    expect(second.asked("send")).toEqual([asked]);
    second.say({ type: "reply", id: asked!["id"], session: "s", seq: 7, repeated: true });
    expect(await done).toMatchObject({ seq: 7, repeated: true });
    second.drop();
    const third = await connected(wire);
    expect(third.asked("send")).toEqual([]);
  });

  it("tells a refused command from an event that is an error", async () => {
    const wire = new Wire();
    const seen = watching(wire);
    const socket = await connected(wire);
    subscribed(socket, 0);
    const failing = wire.command("interrupt", { session: "s" });
    socket.say({ type: "error", id: socket.asked("interrupt")[0]!["id"], code: "busy", message: "not now" });
    await expect(failing).rejects.toMatchObject({ code: "busy" });
    socket.say(event(1, 0, "error"));
    expect(seen.seqs).toEqual([1]);
  });

  it("tells the watcher of a session that is not there", async () => {
    const wire = new Wire();
    const seen = watching(wire);
    const socket = await connected(wire);
    socket.say({ type: "error", id: socket.asked("subscribe")[0]!["id"], code: "not_found", message: "no" });
    expect(seen.answers).toEqual(["not_found"]);
  });

  it("lets a connection go that does not answer", async () => {
    const wire = new Wire();
    const socket = await connected(wire);
    await vi.advanceTimersByTimeAsync(26_000);
    expect(socket.asked("ping")).toHaveLength(1);
    socket.say({ type: "pong" });
    await vi.advanceTimersByTimeAsync(26_000);
    expect(wire.status.value).toBe("live");
    await vi.advanceTimersByTimeAsync(10_000);
    expect(wire.status.value).not.toBe("live");
  });

  it("gives up when the device was revoked, by either sign", async () => {
    const wire = new Wire();
    const socket = await connected(wire);
    socket.drop(4401);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    refused = "bad_credential";
    wire.reconnect();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    expect(localStorage.getItem("fairlead.key")).toBeNull();
  });

  it("never tries when stopped", async () => {
    const wire = new Wire();
    const socket = await connected(wire);
    wire.stop();
    socket.drop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all).toHaveLength(1);
  });
});
