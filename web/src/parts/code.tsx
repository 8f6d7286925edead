// Highlighted code. A language is loaded when first used; until then, and if it is too long, code is shown plain.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Button } from "./button";
import { toast } from "./toast";
import "../style/prose.css";

type Highlight = typeof import("./highlight");

const library = signal<Highlight | null>(null);
const LONGEST = 60_000;

interface CodeProps {
  text: string;
  /** A name, or a file's ending. */
  language?: string;
  /** It is still being written: colours come when it is done. */
  live?: boolean;
  /** Without the frame and its copy button. */
  inner?: boolean;
}

export function Code({ text, language = "", live = false, inner = false }: CodeProps) {
  const wanted = language.trim().split(/\s/)[0]?.toLowerCase() ?? "";
  const [shown, setShown] = useState<{ of: string; html: string } | null>(null);
  useEffect(() => {
    if (live || !wanted || text.length > LONGEST) return;
    let gone = false;
    void (async () => {
      library.value ??= await import("./highlight");
      const html = await library.value.highlight(text, wanted);
      if (!gone && html !== null) setShown({ of: text, html });
    })().catch(() => undefined);
    return () => {
      gone = true;
    };
  }, [text, wanted, live]);
  const ready = shown?.of === text ? shown.html : null;
  const code = ready ? <code dangerouslySetInnerHTML={{ __html: ready }} /> : <code>{text}</code>;
  if (inner) return code;
  return (
    <figure class="code">
      <figcaption>
        <span>{wanted}</span>
        <Copy text={text} />
      </figcaption>
      <pre tabIndex={0} role="group" aria-label={wanted ? `Code, ${wanted}` : "Code"}>
        {code}
      </pre>
    </figure>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => toast("Copied"),
      () => toast("The browser does not allow copying here.", { tone: "bad" }),
    );
  return <Button label={label} icon="copy" kind="quiet" bare onClick={() => void copy()} />;
}
