// The types of the native protocol that the UI uses. Unused fields are not listed.

export type Scope = "view" | "chat" | "approve" | "terminal" | "metrics" | "admin";

export interface Me {
  credential: string;
  user: string;
  name: string;
  scopes: Scope[];
}

export interface Summary {
  session: string;
  title: string;
  cwd: string;
  agent: string;
  state: string; // idle, working, waiting, transcript, ...
  model: string;
  mode: string;
  archived: boolean;
  created: number;
  updated: number;
  turns: number;
  pending: number;
  queued: number;
  cost_usd: number;
  input_tokens: number;
  output_tokens: number;
  parent: string | null;
  first_prompt: string;
  branch: string;
  owner: string;
  shared: string[];
  node?: string; // the gateway that has the session's files, where there are several
}

export interface Settings {
  model?: string;
  mode?: string;
  thinking?: number | null;
  effort?: string;
  link?: string;
}

export interface Pending {
  session: string;
  seq: number;
  event: AskEvent;
}

export interface Queued {
  message: string;
  by?: string;
  content: Block[];
}

export interface SessionView {
  summary: Summary;
  log_id: string;
  head: number;
  turn?: string;
  settings?: Settings;
  pending?: Pending[];
  queue?: Queued[];
  watchers?: string[];
  /** Its log does not have all of its transcript yet. */
  importing?: boolean;
  /** What the session's agent cannot do, of the capabilities that agents have. */
  cannot?: Capability[];
}

export type Capability =
  | ("rewind" | "fork" | "steer" | "thinking" | "edited_input" | "variables")
  | ("images" | "questions" | "plan" | "resume" | "terminal" | "transcripts" | "cost");

/** The end of a transcript; `importing`: the log does not have all of it yet. */
export interface Glance {
  events: Event[];
  importing: boolean;
}

export interface EventPage {
  session: string;
  log_id: string;
  head: number;
  events: Event[];
  next?: number;
}

export interface Hit {
  session: string;
  /** 0: in a transcript that was never opened. */
  seq: number;
  at: number;
  kind: string;
  snippet: string;
  title: string;
}

/** An agent that sessions can run. */
export interface Agent {
  name: string;
  default?: boolean;
  version?: string;
  problem?: string;
  links?: string[];
}

export interface Reply {
  session: string;
  seq?: number;
  message?: string;
  data?: unknown;
  repeated?: boolean;
}

export type Block =
  | { type: "text"; text: string }
  | { type: "image"; source: { type?: string; media_type?: string; data?: string; url?: string } }
  | { type: "document"; source?: unknown; title?: string }
  | { type: "other"; data?: unknown }
  | { type: string; [field: string]: unknown };

interface Base {
  seq: number;
  prev?: number;
  session?: string;
  id: string;
  at?: number;
  turn?: string;
  subagent?: string;
}

export interface ModelUsage {
  input?: number;
  output?: number;
  cache_read?: number;
  cache_write?: number;
  cost_usd?: number;
  window?: number;
}

export type Tokens = Omit<ModelUsage, "cost_usd" | "window">;

export interface PermissionAsked extends Base {
  type: "permission.asked";
  request: string;
  call: string;
  tool: string;
  input: Record<string, unknown>;
  title?: string;
  reason?: string;
  blocked_path?: string;
  suggestions?: string[];
}

export interface QuestionAsked extends Base {
  type: "question.asked";
  request: string;
  call: string;
  questions: Record<string, unknown>[];
  input?: Record<string, unknown>;
}

export interface PlanProposed extends Base {
  type: "plan.proposed";
  request: string;
  call: string;
  plan: string;
  input?: Record<string, unknown>;
}

export type AskEvent = PermissionAsked | QuestionAsked | PlanProposed;

export interface PermissionResolved extends Base {
  type: "permission.resolved";
  request: string;
  call: string;
  tool: string;
  behavior: "allow" | "deny";
  how: string;
  by?: string;
  rule?: string;
  message?: string;
  updated_input?: Record<string, unknown> | null;
  remembered?: string[];
  asked?: boolean;
}

export type Event =
  | (Base & { type: "session.opened"; cwd: string; agent: string; title?: string; by?: string })
  | (Base & { type: "session.forked"; parent: string })
  | (Base & { type: "session.resumed" })
  | (Base & { type: "session.changed"; title?: string | null; archived?: boolean | null; settings?: Settings | null })
  | (Base & { type: "session.closed"; reason: string })
  | (Base & { type: "agent.started"; agent: string; version?: string; resumed?: boolean })
  | (Base & {
      type: "agent.ready";
      version?: string;
      model?: string;
      mode?: string;
      cwd?: string;
      tools?: string[];
      commands?: string[];
    })
  | (Base & { type: "agent.exited"; reason: string; expected: boolean; code?: number; stderr?: string })
  | (Base & { type: "handover.asked"; link: string; when?: string; waits_for?: string[] })
  | (Base & { type: "handover.settled"; link: string; outcome: string; reason?: string })
  | (Base & { type: "turn.started"; trigger?: string })
  | (Base & {
      type: "turn.ended";
      status: "completed" | "failed" | "cancelled";
      reason?: string;
      cost_usd?: number;
      duration_ms?: number;
      usage?: Record<string, ModelUsage>;
      errors?: string[];
      closed?: string[];
    })
  | (Base & {
      type: "user.message";
      message: string;
      content: Block[];
      by?: string;
      via?: "prompt" | "steer" | "agent";
      synthetic?: boolean;
    })
  | (Base & { type: "text.delta"; message: string; block: number; offset: number; text: string })
  | (Base & { type: "thinking.delta"; message: string; block: number; offset: number; text?: string })
  | (Base & {
      type: "input.delta";
      message: string;
      block: number;
      offset: number;
      call: string;
      name: string;
      json: string;
    })
  | (Base & {
      type: "text";
      message: string;
      block: number;
      text: string;
      model?: string;
      error?: string;
      tokens?: Tokens | null;
    })
  | (Base & { type: "thinking"; message: string; block: number; text: string; tokens?: Tokens | null })
  | (Base & {
      type: "tool.called";
      call: string;
      name: string;
      input: Record<string, unknown>;
      message: string;
      block?: number;
      tokens?: Tokens | null;
    })
  | (Base & { type: "tool.progress"; call: string; name?: string; elapsed_s?: number; note?: string })
  | (Base & {
      type: "tool.ended";
      call: string;
      name?: string;
      content?: unknown;
      data?: unknown;
      is_error?: boolean;
      status?: "done" | "failed" | "interrupted";
      background?: boolean;
    })
  | (Base & {
      type: "subagent.started";
      child: string;
      call: string;
      title?: string;
      kind?: string;
      background?: boolean;
    })
  | (Base & { type: "subagent.ended"; child: string; call: string; status?: string; summary?: string })
  | (Base & { type: "subagent.resolved"; child: string; call: string; messages?: string[]; calls?: string[] })
  | AskEvent
  | PermissionResolved
  | (Base & { type: "permission.cancelled"; request: string; reason: string })
  | (Base & { type: "mode.changed"; mode: string; by?: string })
  | (Base & { type: "model.changed"; model: string; by?: string })
  | (Base & { type: "thinking.changed"; budget: number | null; by?: string })
  | (Base & { type: "compaction"; phase: "started" | "ended" | "boundary"; trigger?: string; pre_tokens?: number })
  | (Base & { type: "rate.limit"; info: Record<string, unknown> })
  | (Base & { type: "hook.progress"; hook: string; name: string; event: string; phase: string; output?: string })
  | (Base & { type: "notice"; kind: string; text?: string; data?: Record<string, unknown> })
  | (Base & { type: "message.queued"; message: string; content: Block[]; by?: string })
  | (Base & { type: "message.dequeued"; message: string })
  | (Base & { type: "message.cancelled"; message: string; by?: string; reason?: string })
  | (Base & { type: "message.moved"; message: string; position: number })
  | (Base & { type: "interrupt.asked"; by?: string })
  | (Base & { type: "rewound"; message: string; by?: string })
  | (Base & { type: "error"; code: string; message: string; data?: Record<string, unknown> })
  | (Base & { type: "record"; record: string });

export interface Subscribed {
  type: "subscribed";
  id: string;
  session: string;
  verdict: "ok" | "gap";
  log_id: string;
  head: number;
}

/** Frames that are not stored: who watches, who types. */
export interface Passing {
  type: "presence" | "typing";
  session: string;
  name: string;
  data?: unknown;
}
