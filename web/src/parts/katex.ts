// LaTeX to MathML. KaTeX makes no links and loads nothing here (`trust` is false); what it made is reduced to MathML.

import DOMPurify from "dompurify";
import { renderToString } from "katex";

/** MathML of a formula without its source; throws if it is not valid LaTeX. */
export function markup(text: string, display: boolean): string {
  const made = renderToString(text, {
    output: "mathml",
    displayMode: display,
    throwOnError: true,
    trust: false,
    strict: "ignore",
    maxSize: 20,
    maxExpand: 200,
  });
  return made.replace(/<annotation[\s\S]*?<\/annotation>/g, "").replace(/<\/?semantics>/g, "");
}

/** Null for a text that is not valid LaTeX. */
export function mathml(text: string, display: boolean): string | null {
  let made: string;
  try {
    made = markup(text, display);
  } catch {
    return null;
  }
  const clean = DOMPurify.sanitize(made, {
    USE_PROFILES: { mathMl: true },
    FORBID_ATTR: ["style", "href", "class"],
    RETURN_TRUSTED_TYPE: true,
  });
  // TrustedHTML if the browser supports it; callers pass it on unchanged.
  return clean as unknown as string;
}
