// The composer: text and attachments, completion of slash commands and of file names after @; sends a new turn or steers the running one. Next to it
// are the session's settings, above it the queue.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LiveSession } from "../../live/session";
import { Button } from "../../parts/button";
import { Icon } from "../../parts/icon";
import { Menu } from "../../parts/menu";
import { toast, toastError } from "../../parts/toast";
import { oneLine } from "../../state/text";
import { may } from "../../wire/login";
import { wire } from "../../wire/socket";
import type { Block } from "../../wire/types";
import { type Attachment, attach, attachedOf } from "./attachments";
import { MODELS, MODES, THINKING, modeName, modelName } from "./choices";
import { Suggestions, known, useSuggestions } from "./suggestions";
import { Queue } from "./queue";

const draftKey = (session: string) => `fairlead.draft.${session}`;
const touch = matchMedia("(pointer: coarse)");

export function Composer({ live }: { live: LiveSession }) {
  const [text, setText] = useState(() => sessionStorage.getItem(draftKey(live.id)) ?? "");
  const [attached, setAttached] = useState<Attachment[]>([]);
  const [over, setOver] = useState(false);
  const [caret, setCaret] = useState(text.length);
  const box = useRef<HTMLTextAreaElement>(null);
  const file = useRef<HTMLInputElement>(null);
  const camera = useRef<HTMLInputElement>(null);
  const { turn, commands, interrupting } = live.facts.value;
  const working = turn !== "";
  const all = useMemo(() => known(commands), [commands]);
  const suggested = useSuggestions(live.id, text, caret, all);
  const { found, picked } = suggested;

  useEffect(() => {
    if (text) sessionStorage.setItem(draftKey(live.id), text);
    else sessionStorage.removeItem(draftKey(live.id));
  }, [text]);
  useEffect(() => {
    if (!touch.matches) box.current?.focus({ preventScroll: true });
  }, []);
  const again = live.draft.value;
  useEffect(() => {
    // A message of the conversation that is to be changed and sent again.
    if (!again) return;
    live.draft.value = null;
    takeBack(again);
  }, [again]);
  useLayoutEffect(() => {
    const area = box.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [text]);

  // Sent to the other watchers at most every few seconds.
  const typingSent = useRef(0);
  const typing = () => {
    if (Date.now() - typingSent.current < 4000 || live.watchers.peek().length < 2) return;
    typingSent.current = Date.now();
    wire.notify("typing", { session: live.id });
  };

  // One after another: attachments stand in the order in which they were chosen, however long each takes to read.
  const adding = useRef(Promise.resolve());
  const add = (files: Iterable<File>) => {
    const chosen = [...files];
    adding.current = adding.current.then(() => addAll(chosen));
    return adding.current;
  };
  const addAll = async (files: File[]) => {
    for (const one of files) {
      try {
        const made = await attach(one, live.can("images"));
        setAttached((before) => [...before, made]);
      } catch (error) {
        toastError(error);
      }
    }
    box.current?.focus();
  };

  const ready = text.trim() !== "" || attached.length > 0;
  const steers = live.can("steer");
  const send = (steer: boolean) => {
    if (!ready) return;
    const content: Block[] = [...attached.map((one) => one.block)];
    if (text.trim()) content.push({ type: "text", text });
    setText("");
    setAttached([]);
    live.send(content, steer).catch(toastError);
    box.current?.focus();
  };

  const complete = (chosen: string) => {
    const made = suggested.complete(chosen);
    setText(made.text);
    setCaret(made.caret);
    box.current?.focus();
    // After the new text is drawn.
    requestAnimationFrame(() => box.current?.setSelectionRange(made.caret, made.caret));
  };

  const keys = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (found.length) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        suggested.pick((picked + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
        return;
      }
      if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && found[picked] !== suggested.typed)) {
        event.preventDefault();
        complete(found[picked] ?? "");
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        suggested.close();
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey && (!touch.matches || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send(steers && working && (event.ctrlKey || event.metaKey));
    } else if (event.key === "Escape" && working) {
      event.preventDefault();
      interrupt();
    }
  };

  const interrupt = () => void live.command("interrupt").catch(toastError);

  const takeBack = (content: Block[]) => {
    const kept = attachedOf(content);
    setText((before) => [kept.text, before].filter(Boolean).join("\n"));
    setAttached((before) => [...kept.attached, ...before]);
    box.current?.focus();
  };
  const edit = (message: string, content: Block[]) => {
    live.command("cancel_message", { message }).then(() => takeBack(content), toastError);
  };

  const others = live.typing.names.value;
  return (
    <section
      class={over ? "composer over" : "composer"}
      aria-label="New message"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void add(event.dataTransfer?.files ?? []);
      }}
    >
      <Queue live={live} onEdit={edit} />
      {attached.length > 0 && (
        <ul class="attached-list" aria-label="Attachments">
          {attached.map((one) => (
            <li key={one.id}>
              {one.preview ? <img src={one.preview} alt="" /> : <Icon name="file" />}
              <span>{oneLine(one.name, 40)}</span>
              <Button
                label={`Remove ${oneLine(one.name, 40)}`}
                icon="close"
                kind="quiet"
                bare
                onClick={() => setAttached(attached.filter((other) => other !== one))}
              />
            </li>
          ))}
        </ul>
      )}
      <div class="compose">
        {found.length > 0 && <Suggestions kind={suggested.kind} found={found} picked={picked} onPick={complete} />}
        <label class="hidden-visually" for="compose-text">
          Message
        </label>
        <textarea
          id="compose-text"
          ref={box}
          rows={1}
          value={text}
          placeholder={
            working ? (steers ? "Queue a message, or steer with Ctrl+Enter…" : "Queue a message…") : "Message the agent…"
          }
          dir="auto"
          aria-controls={found.length ? "suggestions" : undefined}
          aria-autocomplete="list"
          aria-activedescendant={found.length ? `suggestion-${picked}` : undefined}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setCaret(event.currentTarget.selectionStart);
            typing();
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={keys}
          onPaste={(event) => {
            const files = [...(event.clipboardData?.files ?? [])];
            if (!files.length) return;
            event.preventDefault();
            void add(files);
          }}
        />
        <div class="compose-bar">
          <input
            ref={file}
            type="file"
            multiple
            hidden
            aria-label="Files to attach"
            onChange={(event) => {
              void add([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
          <input
            ref={camera}
            type="file"
            accept="image/*"
            capture="environment"
            hidden
            aria-label="Photo"
            onChange={(event) => {
              void add([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
          <Button label="Attach files" icon="attach" kind="quiet" bare onClick={() => file.current?.click()} />
          {touch.matches && live.can("images") && (
            <Button label="Take photo" icon="camera" kind="quiet" bare onClick={() => camera.current?.click()} />
          )}
          <Choices live={live} />
          <span class="typing" role="status">
            {others.length > 0 && `${others.map((name) => oneLine(name, 30)).join(", ")} ${others.length === 1 ? "is" : "are"} typing…`}
          </span>
          {working && (
            <Button
              class="stop"
              label={interrupting ? "Interrupting" : "Interrupt"}
              icon="stop"
              bare
              disabled={interrupting}
              onClick={interrupt}
            />
          )}
          {working && ready && steers && (
            <Button label="Steer" title="Send to the running turn (Ctrl+Enter)" onClick={() => send(true)} />
          )}
          <Button
            class="send"
            label={working ? "Queue" : "Send"}
            icon="send"
            kind="primary"
            bare
            disabled={!ready}
            onClick={() => send(false)}
          />
        </div>
      </div>
    </section>
  );
}

/** The session's settings. A change becomes an event that every client receives. */
function Choices({ live }: { live: LiveSession }) {
  const { mode, model, thinking } = live.facts.value;
  const change = (type: string, fields: Record<string, unknown>) =>
    void live
      .command(type, fields)
      .then(() => toast("Setting changed. It applies from the next turn at the latest."))
      .catch(toastError);
  const models = MODELS.some((one) => one.value === model) || !model ? MODELS : [...MODELS, { value: model, label: modelName(model) }];
  return (
    <>
      {may("approve") && (
        <Menu
          label={modeName(mode)}
          class="setting"
          items={MODES.map((one) => ({
            label: one.label,
            about: one.about,
            chosen: one.value === (mode || "default"),
            onChoose: () => change("set_mode", { mode: one.value }),
          }))}
        />
      )}
      <Menu
        label={modelName(model)}
        class="setting"
        items={models.map((one) => ({
          label: one.label,
          chosen: one.value === model,
          onChoose: () => change("set_model", { model: one.value }),
        }))}
      />
      {live.can("thinking") && (
        <Menu
          label="Thinking budget"
          icon="thinking"
          bare
          items={THINKING.map((one) => ({
            label: one.label,
            chosen: one.value === (thinking ?? null),
            onChoose: () => change("set_thinking", { budget: one.value }),
          }))}
        />
      )}
    </>
  );
}
