// Colours of the style sheets for what paints by itself: canvases and the terminal.

/** A colour token as it is painted inside this element. A custom property is read as it is written, light-dark() and
 * all, which no canvas understands; a colour that an element has is read as it is seen. */
export function painted(within: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  within.append(probe);
  const seen = getComputedStyle(probe).color;
  probe.remove();
  return seen;
}
