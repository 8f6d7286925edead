// When to draw.

/** The next animation frame; a hidden tab has none, so a timer replaces it. */
export function schedule(work: () => void): number {
  if (document.visibilityState === "visible") return requestAnimationFrame(work);
  return setTimeout(work, 200) as unknown as number;
}
