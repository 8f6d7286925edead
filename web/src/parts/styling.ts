// A document for libraries that style their elements by <style> tags and style attributes, which our policy refuses:
// what they say goes into constructed style sheets and into the elements' own style objects, which it allows.

export interface StyledDocument {
  document: Document;
  close: () => void;
}

export function styledDocument(): StyledDocument {
  const sheets = new Set<CSSStyleSheet>();

  const sheetElement = (): HTMLElement => {
    const sheet = new CSSStyleSheet();
    sheets.add(sheet);
    document.adoptedStyleSheets.push(sheet);
    const element = document.createElement("span");
    element.hidden = true;
    Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
    element.remove = () => {
      drop(sheet);
      Element.prototype.remove.call(element);
    };
    return element;
  };

  const drop = (sheet: CSSStyleSheet) => {
    sheets.delete(sheet);
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
  };

  const made = new Proxy(document, {
    get(target, name) {
      if (name === "createElement")
        return (tag: string) => {
          if (tag === "style") return sheetElement();
          const element = target.createElement(tag);
          if (tag === "span") element.setAttribute = setAttribute;
          return element;
        };
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
  return { document: made, close: () => [...sheets].forEach(drop) };
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}
