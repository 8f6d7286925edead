// The gateway's full-text search. Its index lags behind the log, so a search without hits is repeated twice.

import { query, rest } from "../wire/rest";
import type { Hit } from "../wire/types";

const AGAIN_MS = 800;
const TRIES = 3;

/** Calls `found` with the hits and the number of sessions that are not indexed yet, again after each repetition. The
 * returned function cancels the search. */
export function search(
  words: string,
  where: { session?: string; limit: number },
  found: (hits: Hit[], notSearched: number) => void,
  failed: (error: unknown) => void,
): () => void {
  let gone = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const ask = async (left: number): Promise<void> => {
    const path = `/v1/search${query({ q: words, ...where })}`;
    const { hits, not_searched } = await rest.get<{ hits: Hit[]; not_searched: number }>(path);
    if (gone) return;
    found(hits, not_searched);
    if (!hits.length && left > 1) timer = setTimeout(() => ask(left - 1).catch(failed), AGAIN_MS);
  };
  ask(TRIES).catch(failed);
  return () => {
    gone = true;
    clearTimeout(timer);
  };
}
