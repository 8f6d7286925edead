// Recent notices of all sessions, and the notification settings of this device: toasts on the page, push messages.

import { useEffect, useState } from "preact/hooks";
import { hasOlder, loadOlder, notices, type Notice } from "../../live/notices";
import { learnPush, pushState, setTopics, subscription, tryPush, turnOff, turnOn } from "../../live/push";
import { keepToastKinds, placeOf, toastKinds } from "../../notify";
import { Button } from "../../parts/button";
import { Icon, type IconName } from "../../parts/icon";
import { Time } from "../../parts/time";
import { toast, toastError } from "../../parts/toast";
import { Link } from "../../router";
import { DEFAULT_PUSH, KINDS, toggled } from "../../state/kinds";
import { inbox } from "../../state/inbox";
import { oneLine } from "../../state/text";
import "../../style/panel.css";

export default function Notifications() {
  useEffect(() => {
    learnPush().catch(toastError);
  }, []);
  return (
    <main class="plain notifications">
      <h1>Notifications</h1>
      <NotificationSettings />
      <Feed />
    </main>
  );
}

const PUSH_TEXT = {
  unknown: "",
  unsupported: "This browser does not support push messages. On iOS, add Fairlead to the home screen first.",
  denied: "The browser blocks notifications from this page. You can allow them in the browser's settings.",
  off: "Push messages reach this device while the page is closed. You can allow or deny a request from its message.",
  on: "Push messages reach this device while the page is closed.",
} as const;

function NotificationSettings() {
  const [busy, setBusy] = useState(false);
  const doing = (work: () => Promise<void>) => {
    setBusy(true);
    work()
      .catch(toastError)
      .finally(() => setBusy(false));
  };
  const on = pushState.value === "on";
  const topics = subscription.value?.topics ?? [];
  return (
    <details class="panel">
      <summary>Notification settings</summary>
      <table class="grid-table kinds">
        <thead>
          <tr>
            <th scope="col">Event</th>
            <th scope="col">On the page</th>
            <th scope="col">Push</th>
          </tr>
        </thead>
        <tbody>
          {KINDS.map(({ kind, label, about }) => (
            <tr key={kind}>
              <th scope="row">
                {label}
                <small>{about}</small>
              </th>
              <td>
                <input
                  type="checkbox"
                  aria-label={`${label}: on the page`}
                  checked={toastKinds.value.includes(kind)}
                  onChange={(event) => keepToastKinds(toggled(toastKinds.value, kind, event.currentTarget.checked))}
                />
              </td>
              <td>
                <input
                  type="checkbox"
                  aria-label={`${label}: push`}
                  disabled={!on || busy}
                  checked={topics.includes(kind)}
                  onChange={(event) => {
                    const wanted = event.currentTarget.checked;
                    doing(() => setTopics(toggled(topics, kind, wanted)));
                  }}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="soft">{PUSH_TEXT[pushState.value]}</p>
      {subscription.value?.failed && on && <p class="banner">The last push message failed: {oneLine(subscription.value.failed, 300)}</p>}
      <div class="actions">
        {pushState.value === "off" && (
          <Button label="Turn push on" kind="primary" busy={busy} onClick={() => doing(() => turnOn(DEFAULT_PUSH))} />
        )}
        {on && (
          <>
            <Button
              label="Send test message"
              busy={busy}
              onClick={() =>
                doing(async () => {
                  await tryPush();
                  toast("Test message sent. It should arrive in a moment.");
                })
              }
            />
            <Button label="Turn push off" busy={busy} onClick={() => doing(turnOff)} />
          </>
        )}
      </div>
    </details>
  );
}

const ICONS: [string, IconName][] = [
  ["permission", "waiting"],
  ["turn", "check"],
  ["session", "sessions"],
  ["conversation", "sessions"],
];

function iconOf({ kind, color }: Notice): IconName {
  if (color === "error") return "alert";
  return ICONS.find(([start]) => kind.startsWith(start))?.[1] ?? "notifications";
}

/** Kinds that repeat another notice (created, deleted), or that the session list shows (working, renamed). */
const LEFT_OUT = new Set([
  "conversation.create",
  "conversation.delete",
  "conversation.edit",
  "session.working",
  "session.changed",
]);

function Feed() {
  const { shown, settled } = inbox(notices.value.filter((one) => !LEFT_OUT.has(one.kind)));
  return (
    <section aria-labelledby="feed" class="panel">
      <h2 id="feed">Recent activity</h2>
      {!shown.length && !settled.length && <p class="soft">No notifications yet.</p>}
      <ol class="feed" aria-live="off">
        {shown.map((one) => (
          <Entry key={one.seq} notice={one} />
        ))}
      </ol>
      {settled.length > 0 && (
        <details class="settled">
          <summary>
            {settled.length} settled request{settled.length === 1 ? "" : "s"}
          </summary>
          <ol class="feed" aria-live="off">
            {settled.map((one) => (
              <Entry key={one.seq} notice={one} />
            ))}
          </ol>
        </details>
      )}
      {hasOlder.value && (
        <div class="actions">
          <Button label="Show older" onClick={() => void loadOlder().catch(toastError)} />
        </div>
      )}
    </section>
  );
}

function Entry({ notice }: { notice: Notice }) {
  const to = placeOf(notice);
  const text = oneLine(notice.message, 300);
  return (
    <li class={`feed-entry ${notice.color ?? "info"}`}>
      <Icon name={iconOf(notice)} />
      <span>
        <strong>{oneLine(notice.title, 120)}</strong> {to ? <Link to={to}>{text}</Link> : text}
      </span>
      <Time at={notice.at} />
    </li>
  );
}
