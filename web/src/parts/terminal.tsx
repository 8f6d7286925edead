// A terminal, drawn by xterm.js. Its output affects only the terminal: no clipboard access, no links that open, and titles
// only as text.

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
  /** Opens the socket; called again after each lost connection. */
  open: () => Promise<WebSocket>;
  name: string;
  readOnly: boolean;
  screenReader: boolean;
  onState: (state: TerminalState, detail: string) => void;
  onTitle: (title: string) => void;
  line: (line: TerminalLine) => void;
}

const AGAIN_MS = 1500;
const SETTLE_MS = 80;
const EARLY = 4096;
/** Close code: the terminal does not exist, so reconnecting is useless. */
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
      // Links are plain text: the program that printed one chose its target.
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
    // On a phone, the focus would open a keyboard that covers the terminal.
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

  /** Keys typed before the first connection are kept and sent; keys typed while disconnected are dropped. */
  type(keys: string): void {
    if (this.props.readOnly) return;
    if (this.early !== null) this.early = (this.early + keys).slice(0, EARLY);
    else this.send({ type: "input", data: keys });
  }

  /** Reports the available size; the gateway replies with the size it chose. */
  measured(): void {
    clearTimeout(this.settle);
    this.settle = setTimeout(() => {
      const room = this.fit.proposeDimensions();
      if (room && !this.props.readOnly && Number.isFinite(room.cols) && room.cols > 1 && room.rows > 0)
        this.send({ type: "resize", cols: room.cols, rows: room.rows });
    }, SETTLE_MS);
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.again);
    clearTimeout(this.settle);
    this.socket?.close(1000);
  }

  private send(frame: Record<string, unknown>): void {
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

  private later(reason: string): void {
    if (this.closed) return;
    this.props.onState("offline", reason);
    this.again = setTimeout(() => void this.connect(), AGAIN_MS);
  }

  private received(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      // The first output after a reconnect redraws the whole screen.
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

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

function themeOf(element: HTMLElement) {
  const value = (name: string) => painted(element, name);
  const palette: Record<string, string> = {};
  COLOURS.forEach((colour, index) => {
    palette[colour] = value(`--ansi-${index}`);
    palette[`bright${colour[0]!.toUpperCase()}${colour.slice(1)}`] = value(`--ansi-${index + 8}`);
  });
  return {
    ...palette,
    background: value("--sunken"),
    foreground: value("--ink"),
    cursor: value("--accent"),
    selectionBackground: value("--accent-wash"),
    scrollbarSliderBackground: value("--line"),
    scrollbarSliderHoverBackground: value("--edge"),
    scrollbarSliderActiveBackground: value("--edge"),
  };
}
