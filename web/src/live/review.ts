// The changes of one session: the list is loaded page by page, the diff of a file as far as it is shown.

import { batch, computed, signal } from "@preact/signals";
import { toast, toastError } from "../parts/toast";
import {
  type ChangeList,
  type ChangedFile,
  type Comment,
  type DiffPair,
  type DiffRow,
  type FileDiff,
  type WorktreeState,
  matching,
  messageOf,
} from "../state/review";
import { WireError, query, rest } from "../wire/rest";

interface WorktreeClosed {
  state: WorktreeState;
  commit?: string;
}

const PAGE_ROWS = 1000;
const COLUMNS = "fairlead.diff";

export class Review {
  readonly list = signal<ChangeList | null>(null);
  readonly files = signal<ChangedFile[]>([]);
  readonly complete = signal(false);
  readonly base = signal("session");
  readonly words = signal("");
  readonly current = signal("");
  readonly error = signal<WireError | null>(null);
  readonly diff = signal<OpenDiff | null>(null);
  readonly two = signal(localStorage.getItem(COLUMNS) === "two");
  readonly whole = signal(false);
  readonly comments = signal<Comment[]>([]);
  readonly busy = signal(false);

  readonly shown = computed(() => matching(this.files.value, this.words.value));
  readonly file = computed(() => this.files.value.find((file) => file.key === this.current.value) ?? null);

  private loads = 0;
  private readonly path: string;
  private readonly kept: string;

  constructor(readonly session: string) {
    this.path = `/v1/sessions/${session}/changes`;
    this.kept = `fairlead.review.${session}`;
    try {
      this.comments.value = JSON.parse(localStorage.getItem(this.kept) ?? "[]") as Comment[];
    } catch {
      this.comments.value = [];
    }
  }

  /** Loads the first page, then the others; a newer load stops an older one. */
  async load(): Promise<void> {
    const load = ++this.loads;
    try {
      const first = await rest.get<ChangeList>(`${this.path}${query({ base: this.base.value })}`);
      if (load !== this.loads) return;
      batch(() => {
        this.error.value = null;
        this.list.value = first;
        this.files.value = first.files;
        this.complete.value = !first.next;
        if (!first.files.some((file) => file.key === this.current.value)) this.current.value = "";
      });
      this.openFile(this.current.value);
      let next = first.next;
      while (next) {
        const { before, after, base } = first;
        const page = await rest.get<ChangeList>(`${this.path}${query({ base, before, after, start: next })}`);
        if (load !== this.loads) return;
        this.files.value = [...this.files.value, ...page.files];
        next = page.next;
      }
      this.complete.value = true;
    } catch (error) {
      if (load === this.loads) this.error.value = error instanceof WireError ? error : new WireError("internal", String(error));
    }
  }

  compareWith(base: string): void {
    this.base.value = base;
    void this.load();
  }

  openFile(key: string): void {
    batch(() => {
      this.current.value = key;
      const file = this.file.value;
      const list = this.list.value;
      this.diff.value = file && list ? new OpenDiff(this.path, list, file, this.two.value, this.whole.value) : null;
    });
  }

  step(by: 1 | -1): void {
    const all = this.shown.value;
    const at = all.findIndex((file) => file.key === this.current.value);
    const next = all[at < 0 ? 0 : at + by];
    if (next) this.openFile(next.key);
  }

  setColumns(two: boolean): void {
    this.two.value = two;
    localStorage.setItem(COLUMNS, two ? "two" : "one");
    this.openFile(this.current.value);
  }

  setWhole(whole: boolean): void {
    this.whole.value = whole;
    this.openFile(this.current.value);
  }

  // --- comments

  keepComments(comments: Comment[]): void {
    this.comments.value = comments;
    if (comments.length) localStorage.setItem(this.kept, JSON.stringify(comments));
    else localStorage.removeItem(this.kept);
  }

  async sendComments(): Promise<boolean> {
    return this.doing(async () => {
      const sent = this.comments.value;
      await rest.post(`/v1/sessions/${this.session}/messages`, { text: messageOf(sent) });
      // Those that were written meanwhile stay.
      this.keepComments(this.comments.value.filter((comment) => !sent.includes(comment)));
      toast(sent.length === 1 ? "Comment sent" : `${sent.length} comments sent in one message`);
    });
  }

  // --- git

  async stage(keys: string[], staged: boolean): Promise<boolean> {
    return this.doing(async () => {
      await rest.post(`${this.path}/stage`, { files: keys, staged });
      await this.load();
    });
  }

  async commit(message: string): Promise<boolean> {
    return this.doing(async () => {
      const made = await rest.post<{ commit: string; branch: string }>(`${this.path}/commit`, { message });
      toast(`Committed ${made.commit.slice(0, 9)}${made.branch ? ` on ${made.branch}` : ""}`);
      await this.load();
    });
  }

  async discard(keys: string[]): Promise<boolean> {
    return this.doing(async () => {
      const { tree } = await rest.post<{ tree: string }>(`${this.path}/discard`, { files: keys });
      await this.load();
      toast(keys.length === 1 ? "Change discarded" : `Changes of ${keys.length} files discarded`, {
        action: { label: "Undo", run: () => void this.restore(keys, tree) },
      });
    });
  }

  // --- the worktree

  async mergeWorktree(): Promise<boolean> {
    return this.doing(async () => {
      const { state } = await rest.post<WorktreeClosed>(`/v1/sessions/${this.session}/worktree`, { how: "merge" });
      toast(`Merged ${state.branch} into ${state.into}`);
      await this.load();
    });
  }

  /** What is only in this worktree. */
  async worktreeState(): Promise<WorktreeState> {
    return (await rest.post<WorktreeClosed>(`/v1/sessions/${this.session}/worktree`, { how: "keep" })).state;
  }

  async removeWorktree(force: boolean): Promise<boolean> {
    return this.doing(async () => {
      const { state } = await rest.post<WorktreeClosed>(`/v1/sessions/${this.session}/worktree`, { how: "discard", force });
      toast(`Removed the worktree and the branch ${state.branch}`);
    });
  }

  private restore(keys: string[], tree: string): Promise<boolean> {
    return this.doing(async () => {
      await rest.post(`${this.path}/restore`, { files: keys, tree });
      await this.load();
    });
  }

  private async doing(work: () => Promise<void>): Promise<boolean> {
    this.busy.value = true;
    try {
      await work();
      return true;
    } catch (error) {
      toastError(error);
      return false;
    } finally {
      this.busy.value = false;
    }
  }
}

/** The diff of one file. `rows` are those that are loaded, by position. */
export class OpenDiff {
  readonly about = signal<FileDiff | null>(null);
  readonly rows = signal(new Map<number, DiffRow | DiffPair>());
  readonly error = signal("");
  /** Characters of the longest loaded line. */
  readonly longest = signal(0);
  private readonly asked = new Set<number>();

  constructor(
    private readonly path: string,
    private readonly list: ChangeList,
    readonly file: ChangedFile,
    readonly two: boolean,
    private readonly whole: boolean,
  ) {
    void this.need(0, 0);
  }

  /** Loads the pages of these positions. */
  need(first: number, last: number): void {
    for (let page = Math.floor(first / PAGE_ROWS); page <= Math.floor(last / PAGE_ROWS); page++)
      if (!this.asked.has(page)) {
        this.asked.add(page);
        void this.load(page);
      }
  }

  private async load(page: number): Promise<void> {
    const { before, after } = this.list;
    const { key, old_key } = this.file;
    const start = page * PAGE_ROWS;
    const given = { key, old_key, before, after, start, limit: PAGE_ROWS, columns: this.two ? 2 : 1 };
    try {
      const found = await rest.get<FileDiff>(`${this.path}/file${query({ ...given, context: this.whole ? 100_000 : undefined })}`);
      const rows = new Map(this.rows.value);
      const loaded: (DiffRow | DiffPair)[] = (this.two ? found.pairs : found.rows) ?? [];
      let longest = this.longest.value;
      for (const [index, row] of loaded.entries()) {
        rows.set(start + index, row);
        for (const side of this.two ? (row as DiffPair) : [row as DiffRow]) longest = Math.max(longest, width(side?.[3] ?? ""));
      }
      batch(() => {
        this.rows.value = rows;
        this.longest.value = longest;
        this.about.value = found;
        this.error.value = "";
      });
    } catch (error) {
      this.asked.delete(page);
      this.error.value = error instanceof Error ? error.message : String(error);
    }
  }
}

/** Columns of a line in a fixed-width font: a tab fills up to four, most characters beyond Latin may take two. */
function width(text: string): number {
  let columns = 0;
  for (const character of text) columns += character === "\t" ? 4 - (columns % 4) : character > "\u02ff" ? 2 : 1;
  return columns;
}
