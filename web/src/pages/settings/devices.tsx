// The signed-in devices, which can be revoked, and a single-use QR code that signs in a phone.

import { useEffect, useState } from "preact/hooks";
import { Button } from "../../parts/button";
import { Copy } from "../../parts/code";
import { Confirm, Dialog } from "../../parts/dialog";
import { Field } from "../../parts/field";
import { Time } from "../../parts/time";
import { toastError } from "../../parts/toast";
import { oneLine } from "../../state/text";
import { me, signOut } from "../../wire/login";
import { rest } from "../../wire/rest";
import type { Scope } from "../../wire/types";

interface Device {
  id: string;
  name: string;
  user: string;
  scopes: Scope[];
  created: number;
  last_used: number;
  revoked: number;
}

export function Devices() {
  const [devices, setDevices] = useState<Device[] | null>(null);
  const [revoking, setRevoking] = useState<Device | null>(null);
  const [adding, setAdding] = useState(false);
  const load = () =>
    rest.get<{ devices: Device[] }>("/v1/devices").then((found) => setDevices(found.devices), toastError);
  useEffect(() => void load(), []);
  const live = (devices ?? []).filter((one) => !one.revoked).sort((one, two) => two.last_used - one.last_used);
  const mine = me.value?.credential;
  const revoke = async (device: Device) => {
    try {
      await rest.delete(`/v1/devices/${encodeURIComponent(device.id)}`);
      if (device.id === mine) signOut();
    } catch (error) {
      toastError(error);
    }
    await load();
  };
  return (
    <section class="panel" aria-labelledby="devices">
      <h2 id="devices">Devices</h2>
      <ul class="rows">
        {live.map((device) => (
          <li key={device.id}>
            <div>
              <strong>{oneLine(device.name, 120) || "Device"}</strong>
              {device.id === mine && <span class="tag">this device</span>}
              <small>
                {oneLine(device.user, 80)} · {device.scopes.join(", ")} · last used <Time at={device.last_used || device.created} />
              </small>
            </div>
            <Button
              label={`Revoke ${oneLine(device.name, 60)}`}
              icon="trash"
              kind="danger"
              bare
              onClick={() => setRevoking(device)}
            />
          </li>
        ))}
      </ul>
      {devices && !live.length && <p class="soft">No device is signed in by link. This browser uses a token.</p>}
      <div class="actions">
        <Button label="Add a phone" icon="phone" onClick={() => setAdding(true)} />
      </div>
      {revoking && (
        <Confirm
          title={`Revoke ${oneLine(revoking.name, 80)}`}
          text={
            revoking.id === mine
              ? "This is the device that you are using. You will be signed out."
              : "It is signed out immediately and needs a new link to sign in again."
          }
          action="Revoke"
          onDone={(yes) => {
            const device = revoking;
            setRevoking(null);
            if (yes) void revoke(device);
          }}
        />
      )}
      {adding && (
        <Adding
          onDone={() => {
            setAdding(false);
            void load();
          }}
        />
      )}
    </section>
  );
}

interface Link {
  url: string;
  expires: number;
  qr: string;
}

const GIVEN: [string, string, Scope[]][] = [
  ["steer", "View, chat and approve", ["view", "chat", "approve"]],
  ["all", "Full access, including terminals and settings", ["view", "chat", "approve", "terminal", "admin"]],
  ["look", "View only", ["view"]],
];

function Adding({ onDone }: { onDone: () => void }) {
  const [given, setGiven] = useState("steer");
  const [name, setName] = useState("");
  const [link, setLink] = useState<Link | null>(null);
  const [left, setLeft] = useState(0);
  useEffect(() => {
    if (!link) return;
    const count = () => setLeft(Math.max(0, Math.round((link.expires - Date.now()) / 1000)));
    count();
    const timer = setInterval(count, 1000);
    return () => clearInterval(timer);
  }, [link]);
  const make = async () => {
    const scopes = GIVEN.find(([name]) => name === given)![2];
    try {
      setLink(await rest.post<Link>("/v1/login-codes", { name: name.trim(), scopes }));
    } catch (error) {
      toastError(error);
    }
  };
  const local = link && /^https?:\/\/(localhost|127\.|\[::1\])/.test(link.url);
  return (
    <Dialog title="Add a phone" onClose={onDone}>
      {!link && (
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void make();
          }}
        >
          <Field label="Device name" hint="Shown with the answers that this device gives. Empty: the browser's name.">
            <input
              class="input"
              type="text"
              autocomplete="off"
              maxLength={80}
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </Field>
          <Field label="Access">
            <select class="input" value={given} onChange={(event) => setGiven(event.currentTarget.value)}>
              {GIVEN.map(([name, label]) => (
                <option key={name} value={name}>
                  {label}
                </option>
              ))}
            </select>
          </Field>
          <div class="actions">
            <Button label="Show QR code" kind="primary" type="submit" />
          </div>
        </form>
      )}
      {link && left > 0 && (
        <div class="qr">
          <img
            src={`data:image/svg+xml;base64,${btoa(link.qr)}`}
            alt="QR code of the login link"
            width={260}
            height={260}
          />
          <p>Point the phone's camera here. The code works once and expires in {minutes(left)}.</p>
          {local && (
            <p class="banner wait">
              This address works only on this machine. Open Fairlead at an address that the phone can reach.
            </p>
          )}
          <p class="soft link-row">
            Or open the link on the phone: <Copy text={link.url} label="Copy link" />
          </p>
        </div>
      )}
      {link && left === 0 && (
        <div class="qr">
          <p>This code has expired.</p>
          <Button label="Show new code" kind="primary" onClick={() => void make()} />
        </div>
      )}
    </Dialog>
  );
}

function minutes(seconds: number): string {
  return seconds > 90 ? `${Math.round(seconds / 60)} minutes` : `${seconds} seconds`;
}
