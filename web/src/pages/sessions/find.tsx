// Find in a session with the gateway's search, which covers the whole log and not only the loaded part.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { search } from "../../live/search";
import type { LiveSession } from "../../live/session";
import { Button } from "../../parts/button";
import { toastError } from "../../parts/toast";
import { go } from "../../router";
import type { Hit } from "../../wire/types";

export function FindBar({ live, words: first, onClose }: { live: LiveSession; words: string; onClose: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [words, setWords] = useState(first);
  const [hits, setHits] = useState<Hit[] | null>(null);
  const [at, setAt] = useState(0);
  // Before the next key press.
  useLayoutEffect(() => input.current?.focus(), []);

  useEffect(() => {
    const wanted = words.trim();
    if (!wanted) {
      setHits(null);
      return;
    }
    let end = () => {};
    const timer = setTimeout(() => {
      const found = (list: Hit[]) => {
        const ordered = list.toSorted((one, two) => one.seq - two.seq);
        setHits(ordered);
        if (ordered.length) show(ordered, ordered.length - 1);
      };
      end = search(wanted, { session: live.id, limit: 200 }, found, toastError);
    }, 200);
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [words]);

  const show = (list: Hit[], index: number) => {
    const place = (index + list.length) % list.length;
    setAt(place);
    go(`/app/s/${live.id}?at=${list[place]!.seq}`, { replace: true });
  };
  const step = (by: number) => {
    if (hits?.length) show(hits, at + by);
  };
  return (
    <form
      class="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        step(-1);
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <label class="hidden-visually" for="find-words">
        Find in this session
      </label>
      <input
        id="find-words"
        ref={input}
        class="input"
        type="search"
        autocomplete="off"
        placeholder="Find in this session…"
        value={words}
        onInput={(event) => setWords(event.currentTarget.value)}
      />
      <span class="quiet" role="status">
        {hits && (hits.length ? `${at + 1} of ${hits.length}` : "No results")}
      </span>
      <Button label="Previous result" icon="up" kind="quiet" bare disabled={!hits?.length} onClick={() => step(-1)} />
      <Button label="Next result" icon="down" kind="quiet" bare disabled={!hits?.length} onClick={() => step(1)} />
      <Button label="Close" icon="close" kind="quiet" bare onClick={onClose} />
    </form>
  );
}
