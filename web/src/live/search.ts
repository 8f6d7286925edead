// The gateway's full-text search. Its index follows the log at a little distance: nothing found is asked again, twice.

import { query, rest } from "../wire/rest";
import type { Hit } from "../wire/types";

const AGAIN_MS = 800;
const TRIES = 3;

/** `found` is called with what there is, again when there is more; the returned function ends it. */
export function search(
  words: string,
  where: { session?: string; limit: number },
  found: (hits: Hit[]) => void,
  failed: (error: unknown) => void,
): () => void {
  let gone = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const ask = async (left: number): Promise<void> => {
    const { hits } = await rest.get<{ hits: Hit[] }>(`/v1/search${query({ q: words, ...where })}`);
    if (gone) return;
    found(hits);
    if (!hits.length && left > 1) timer = setTimeout(() => ask(left - 1).catch(failed), AGAIN_MS);
  };
  ask(TRIES).catch(failed);
  return () => {
    gone = true;
    clearTimeout(timer);
  };
}
