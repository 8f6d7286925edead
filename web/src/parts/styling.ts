// For a library that uses <style> tags and style attributes, which our policy forbids: its styles go into constructed style
// sheets and into the elements' style objects, which the policy allows.

/** A style attribute that a script sets on a span is its style object; text never becomes markup by it. */
export function letSpansBeStyled(): void {
  HTMLSpanElement.prototype.setAttribute = function (name: string, value: string): void {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}

/** Runs `work`; the <style> elements that it makes are style sheets. The returned function takes them away. */
export function withSheets(work: () => void): () => void {
  const sheets = new Set<CSSStyleSheet>();
  const drop = (sheet: CSSStyleSheet) => {
    sheets.delete(sheet);
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
  };
  const make = (tag: string) => Document.prototype.createElement.call(document, tag);
  const sheetElement = () => {
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    document.adoptedStyleSheets.push(sheet);
    const element = make("span");
    element.hidden = true;
    Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
    element.remove = () => {
      drop(sheet);
      Element.prototype.remove.call(element);
    };
    return element;
  };
  document.createElement = ((tag: string) => (tag === "style" ? sheetElement() : make(tag))) as typeof document.createElement;
  try {
    work();
  } finally {
    // Deleting our property restores the browser's own.
    delete (document as { createElement?: unknown }).createElement;
  }
  return () => [...sheets].forEach(drop);
}
