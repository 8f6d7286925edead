// A terminal: the gateway's screen in this browser, by xterm.js. What is printed there is interpreted there and nowhere
// else: no clipboard, no links that open by themselves, no titles but as text.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef } from "preact/hooks";
import { plain } from "../state/text";
import "../style/terminal.css";
import { painted } from "./colour";
import { letSpansBeStyled, withSheets } from "./styling";

letSpansBeStyled();

export type TerminalState = "connecting" | "live" | "offline" | "ended";

export interface TerminalLine {
  /** Keys, as text. */
  type(keys: string): void;
  focus(): void;
}

interface TerminalProps {
  /** Opens its socket; it is called again whenever that was lost. */
  open: () => Promise<WebSocket>;
  name: string;
  readOnly: boolean;
  screenReader: boolean;
  onState: (state: TerminalState, told: string) => void;
  onTitle: (title: string) => void;
  line: (line: TerminalLine) => void;
}

const AGAIN_MS = 1500;
const SETTLE_MS = 80;
const EARLY = 4096;
/** Closed with it: there is no such terminal, so that coming again is no use. */
const NO_TERMINAL = 4404;

export function Terminal(props: TerminalProps) {
  const place = useRef<HTMLDivElement>(null);
  const xterm = useRef<Xterm | null>(null);
  useEffect(() => {
    const element = place.current!;
    const term = new Xterm({
      fontFamily: getComputedStyle(element).fontFamily,
      fontSize: 13,
      scrollback: 5000,
      disableStdin: props.readOnly,
      screenReaderMode: props.screenReader,
      cursorBlink: false,
      theme: themeOf(element),
      // A link is text here: where it leads was chosen by whatever printed it.
      linkHandler: { activate: () => undefined, allowNonHttpProtocols: false },
    });
    xterm.current = term;
    const fit = new FitAddon();
    term.loadAddon(fit);
    const dropSheets = withSheets(() => term.open(element));
    term.textarea?.setAttribute("aria-label", `Terminal ${props.name}`);
    const connection = new Connection(term, fit, props);
    const typed = term.onData((keys) => connection.type(keys));
    const titled = term.onTitleChange((title) => props.onTitle(plain(title)));
    const resized = new ResizeObserver(() => connection.measured());
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const recolour = () => {
      term.options.theme = themeOf(element);
    };
    dark.addEventListener("change", recolour);
    // A phone's keyboard would cover what one came to look at.
    if (!props.readOnly && matchMedia("(pointer: fine)").matches) term.focus();
    props.line({ type: (keys) => connection.type(keys), focus: () => term.focus() });
    return () => {
      dark.removeEventListener("change", recolour);
      resized.disconnect();
      typed.dispose();
      titled.dispose();
      connection.close();
      term.dispose();
      dropSheets();
    };
  }, [props.name, props.readOnly]);
  useEffect(() => {
    if (xterm.current) xterm.current.options.screenReaderMode = props.screenReader;
  }, [props.screenReader]);
  return <div ref={place} class="terminal-screen" />;
}

class Connection {
  private socket: WebSocket | null = null;
  private closed = false;
  private fresh = true;
  private early: string | null = "";
  private again: ReturnType<typeof setTimeout> | undefined;
  private settle: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly term: Xterm,
    private readonly fit: FitAddon,
    private readonly props: TerminalProps,
  ) {
    void this.connect();
  }

  /** What is typed before it is there the first time waits for it; what is typed blind, while it is lost, does not. */
  type(keys: string): void {
    if (this.props.readOnly) return;
    if (this.early !== null) this.early = (this.early + keys).slice(0, EARLY);
    else this.say({ type: "input", data: keys });
  }

  /** How much room there is; the gateway says which size it became. */
  measured(): void {
    clearTimeout(this.settle);
    this.settle = setTimeout(() => {
      const room = this.fit.proposeDimensions();
      if (room && !this.props.readOnly && Number.isFinite(room.cols) && room.cols > 1 && room.rows > 0)
        this.say({ type: "resize", cols: room.cols, rows: room.rows });
    }, SETTLE_MS);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.again);
    clearTimeout(this.settle);
    this.socket?.close(1000);
  }

  private say(frame: Record<string, unknown>): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  private async connect(): Promise<void> {
    this.props.onState("connecting", "");
    let socket: WebSocket;
    try {
      socket = await this.props.open();
    } catch (error) {
      this.later(error instanceof Error ? error.message : String(error));
      return;
    }
    if (this.closed) {
      socket.close();
      return;
    }
    this.socket = socket;
    this.fresh = true;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.measured();
      const early = this.early;
      this.early = null;
      if (early) this.type(early);
    };
    socket.onmessage = (message: MessageEvent<string | ArrayBuffer>) => this.received(message.data);
    socket.onclose = ({ code, reason }) => {
      if (this.socket !== socket) return;
      this.socket = null;
      if (code === NO_TERMINAL || code === 1000) this.props.onState("ended", plain(reason));
      else this.later("");
    };
  }

  private later(told: string): void {
    if (this.closed) return;
    this.props.onState("offline", told);
    this.again = setTimeout(() => void this.connect(), AGAIN_MS);
  }

  private received(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      // The first drawing after a reconnect is of everything.
      if (this.fresh) this.term.reset();
      this.fresh = false;
      this.props.onState("live", "");
      this.term.write(new Uint8Array(data));
      return;
    }
    const frame = JSON.parse(data) as { type: string; cols?: number; rows?: number; code?: unknown; message?: string };
    if (frame.type === "size" && frame.cols && frame.rows) this.term.resize(frame.cols, frame.rows);
    else if (frame.type === "redraw") this.term.reset();
    else if (frame.type === "exit") this.props.onState("ended", typeof frame.code === "number" ? `exit code ${frame.code}` : "");
    else if (frame.type === "error") this.props.onState("offline", plain(frame.message ?? ""));
  }
}

function themeOf(element: HTMLElement) {
  const value = (name: string) => painted(element, name);
  return {
    background: value("--sunken"),
    foreground: value("--ink"),
    cursor: value("--accent"),
    selectionBackground: value("--accent-wash"),
    scrollbarSliderBackground: value("--line"),
    scrollbarSliderHoverBackground: value("--edge"),
    scrollbarSliderActiveBackground: value("--edge"),
  };
}
