// The threads of items: the main thread, and one for each subagent inside the call that started it. An item that changes
// becomes a new object, and so does every call around it; unchanged items keep their identity.

import type { CallItem, Item } from "./items";

export const MAIN = "";

interface Strand {
  items: Item[];
  places: Map<string, number>;
  /** The call that the subagent is shown in, and the thread of that call. */
  owner: string;
  parent: string | null;
}

export class Threads {
  private strands = new Map<string, Strand>([[MAIN, strand("", null)]]);
  private calls = new Map<string, string>(); // call -> the thread it is in
  private touched = new Set<Strand>();

  get items(): Item[] {
    return this.main.items;
  }

  private get main(): Strand {
    return this.strands.get(MAIN)!;
  }

  /** The thread of a subagent; the main thread if the subagent is not known (yet). */
  nameOf(subagent: string | undefined): string {
    return subagent && this.strands.has(subagent) ? subagent : MAIN;
  }

  has(subagent: string): boolean {
    return this.strands.has(subagent);
  }

  threadOf(call: string): string | undefined {
    return this.calls.get(call);
  }

  /** The call that a subagent's thread is shown in. */
  ownerOf(subagent: string): string {
    return this.strands.get(subagent)?.owner ?? "";
  }

  begin(subagent: string, call: string): Item[] {
    const made = strand(call, this.calls.get(call) ?? MAIN);
    this.strands.set(subagent, made);
    return made.items;
  }

  put(subagent: string | undefined, item: Item): void {
    const name = this.nameOf(subagent);
    const where = this.strands.get(name)!;
    const place = where.places.get(item.key);
    if (place === undefined) {
      where.places.set(item.key, where.items.length);
      where.items.push(item);
    } else where.items[place] = item;
    if (item.kind === "call") this.calls.set(item.call, name);
    this.touch(name);
  }

  find(name: string, key: string): Item | undefined {
    const where = this.strands.get(name);
    const place = where?.places.get(key);
    return place === undefined ? undefined : where?.items[place];
  }

  change(call: string, how: (call: CallItem) => CallItem): void {
    const name = this.calls.get(call);
    if (name === undefined) return;
    const found = this.find(name, `c:${call}`);
    if (found?.kind !== "call") return;
    const changed = how(found);
    if (changed !== found) this.put(name, changed);
  }

  /** Out of the main thread, into a subagent's. */
  move(theirs: (item: Item) => boolean, subagent: string): void {
    const moving = this.main.items.filter(theirs);
    if (!moving.length) return;
    this.main.items = this.main.items.filter((item) => !theirs(item));
    this.main.places = new Map(this.main.items.map((item, place) => [item.key, place]));
    this.touched.add(this.main);
    for (const item of moving) this.put(subagent, item);
  }

  /** Lists that are shown get a new identity once a batch, not once an event. */
  settle(): void {
    for (const one of this.touched) one.items = one.items.slice();
    this.touched.clear();
  }

  /** A thread has changed, so the call that shows it has, up to the main one. */
  private touch(name: string): void {
    let at = this.strands.get(name);
    while (at) {
      this.touched.add(at);
      if (at.parent === null) return;
      const parent: Strand | undefined = this.strands.get(at.parent);
      const place = parent?.places.get(`c:${at.owner}`);
      const shown = place === undefined ? undefined : parent?.items[place];
      if (parent && place !== undefined && shown?.kind === "call" && shown.thread)
        parent.items[place] = { ...shown, thread: { ...shown.thread, items: at.items } };
      at = parent;
    }
  }
}

function strand(owner: string, parent: string | null): Strand {
  return { items: [], places: new Map(), owner, parent };
}
