// A formula in LaTeX, drawn by the browser as MathML. The library is loaded with the first one; until then, and if it is
// not valid, the formula is shown as it was written.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

type Library = typeof import("./katex");

const library = signal<Library | null>(null);
const LONGEST = 4000;

export function Formula({ text, display = false }: { text: string; display?: boolean }) {
  const [shown, setShown] = useState<{ of: string; html: string } | null>(null);
  useEffect(() => {
    if (text.length > LONGEST) return;
    let gone = false;
    void (async () => {
      library.value ??= await import("./katex");
      const html = library.value.mathml(text, display);
      if (!gone && html !== null) setShown({ of: text, html });
    })().catch(() => undefined);
    return () => {
      gone = true;
    };
  }, [text, display]);
  if (shown?.of !== text) return display ? <pre class="formula">{text}</pre> : <code>{text}</code>;
  return display ? (
    <div class="formula" role="group" aria-label="Formula" tabIndex={0} dangerouslySetInnerHTML={{ __html: shown.html }} />
  ) : (
    <span class="formula" dangerouslySetInnerHTML={{ __html: shown.html }} />
  );
}
