// The output of a command as a terminal would show it at the end: colours, overwritten lines; nothing is executed.
// Cursor movement beyond one line is left out: this shows output, not a screen (parts/Terminal does that).

export interface Run {
  text: string;
  /** Class names: `a0` to `a15` the text's colour, `k0` to `k15` the background's, `b` bold, `d` dim, `i` italic, `u`
   * underlined. Reversed text has them exchanged; `ap` and `ki` stand for the page's own two colours. */
  look: string;
}

export type Line = Run[];

const TOKEN = /\x1b\[([0-9;:]*)m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b\[([0-?]*)[ -/]*([@-~])|\x1b[ -/]*[0-~]?|[\n\r\b]|[^\x1b\n\r\b]+/g;
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

class Look {
  private flags = new Set<string>();
  private front = "";
  private back = "";

  get name(): string {
    let [front, back] = [this.front, this.back];
    const flags = [...this.flags].filter((flag) => flag !== "r");
    if (this.flags.has("r")) [front, back] = [back ? `a${back.slice(1)}` : "ap", front ? `k${front.slice(1)}` : "ki"];
    return [...flags, front, back].filter(Boolean).sort().join(" ");
  }

  apply(codes: string): void {
    const list = (codes || "0").split(/[;:]/).map((code) => Number(code || "0"));
    for (let index = 0; index < list.length; index++) {
      const code = list[index] ?? 0;
      if (code === 0) [this.front, this.back] = ["", ""];
      if (code === 0) this.flags.clear();
      else if (code === 1) this.flags.add("b");
      else if (code === 2) this.flags.add("d");
      else if (code === 3) this.flags.add("i");
      else if (code === 4) this.flags.add("u");
      else if (code === 7) this.flags.add("r");
      else if (code === 22) ["b", "d"].forEach((flag) => this.flags.delete(flag));
      else if (code === 23) this.flags.delete("i");
      else if (code === 24) this.flags.delete("u");
      else if (code === 27) this.flags.delete("r");
      else if (code >= 30 && code <= 37) this.front = `a${code - 30}`;
      else if (code >= 90 && code <= 97) this.front = `a${code - 82}`;
      else if (code === 39) this.front = "";
      else if (code >= 40 && code <= 47) this.back = `k${code - 40}`;
      else if (code >= 100 && code <= 107) this.back = `k${code - 92}`;
      else if (code === 49) this.back = "";
      else if (code === 38 || code === 48) {
        // 256 and true colours: the first sixteen have a class, the others keep the text colour.
        const palette = list[index + 1] === 5 ? (list[index + 2] ?? 99) : 99;
        if (palette < 16) code === 38 ? (this.front = `a${palette}`) : (this.back = `k${palette}`);
        index += list[index + 1] === 5 ? 2 : list[index + 1] === 2 ? 4 : 0;
      }
    }
  }
}

/** A line that is being written: cells, so that a carriage return overwrites as it does on a terminal. */
class Row {
  private cells: { char: string; look: string }[] = [];
  private at = 0;

  put(text: string, look: string): void {
    for (const char of text) this.cells[this.at++] = { char, look };
  }

  home(): void {
    this.at = 0;
  }

  back(): void {
    this.at = Math.max(0, this.at - 1);
  }

  erase(how: string): void {
    if (how === "" || how === "0") this.cells.length = Math.min(this.cells.length, this.at);
    else if (how === "2") this.cells = [];
    else for (let index = 0; index < this.at; index++) this.cells[index] = { char: " ", look: "" };
  }

  get runs(): Line {
    const runs: Run[] = [];
    for (let index = 0; index < this.cells.length; index++) {
      const { char, look } = this.cells[index] ?? { char: " ", look: "" };
      const last = runs.at(-1);
      if (last && last.look === look) last.text += char;
      else runs.push({ text: char, look });
    }
    return runs;
  }
}

export function screen(output: string): Line[] {
  const lines: Line[] = [];
  const look = new Look();
  let row = new Row();
  for (const token of output.replaceAll("\r\n", "\n").matchAll(TOKEN)) {
    const [whole, colours, argument, verb] = token;
    if (whole === "\n") {
      lines.push(row.runs);
      row = new Row();
    } else if (whole === "\r") row.home();
    else if (whole === "\b") row.back();
    else if (colours !== undefined) look.apply(colours);
    else if (verb !== undefined) {
      if (verb === "K") row.erase(argument ?? "");
    } else if (!whole.startsWith("\x1b")) row.put(whole.replace(CONTROLS, ""), look.name);
  }
  const last = row.runs;
  if (last.length) lines.push(last);
  return lines;
}
