// A long list of rows of equal height: only those near the visible part are in the document.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

const AROUND = 20;

interface VirtualProps {
  count: number;
  /** Height of a row in pixels. */
  height: number;
  class?: string;
  /** Called with the rows that are drawn. */
  onRange?: (first: number, last: number) => void;
  row: (index: number) => ComponentChildren;
  /** The scrolling element gets the other attributes. */
  frame?: Record<string, unknown>;
  /** The row that must be visible. */
  at?: number;
  /** The smallest width of the content, as CSS. */
  width?: string;
}

export function Virtual({ count, height, row, onRange, at, width, ...others }: VirtualProps) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, size: 800 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => setSeen({ top: element.scrollTop, size: element.clientHeight });
    const resized = new ResizeObserver(look);
    resized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    look();
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || at === undefined || at < 0) return;
    const top = at * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
  }, [at, height]);
  const first = Math.max(0, Math.floor(seen.top / height) - AROUND);
  const last = Math.min(count - 1, Math.ceil((seen.top + seen.size) / height) + AROUND);
  useLayoutEffect(() => {
    if (count > 0) onRange?.(first, last);
  }, [first, last, count, onRange]);
  const rows = [];
  for (let index = first; index <= last; index++) rows.push(row(index));
  return (
    <div ref={box} class={others.class} {...others.frame}>
      <div role="presentation" style={{ height: `${count * height}px`, minWidth: width ?? "", position: "relative" }}>
        <div role="presentation" style={{ position: "absolute", top: `${first * height}px`, left: 0, right: 0 }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
