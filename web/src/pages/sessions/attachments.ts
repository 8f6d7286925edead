// Files that go with a message: pictures as images, PDFs as documents, text as text. Bounded before anything is read.

import type { Block } from "../../wire/types";

export interface Attachment {
  id: string;
  name: string;
  block: Block;
  preview: string;
}

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const LARGEST = 5 << 20; // a message has 8 MiB at most, and base64 adds a third
const LARGEST_TEXT = 512 << 10;

export class Unusable extends Error {}

/** `pictures`: whether the agent can see them. */
export async function attach(file: File, pictures: boolean): Promise<Attachment> {
  const name = file.name || "pasted";
  const made = { id: crypto.randomUUID(), name };
  if (PICTURES.has(file.type)) {
    if (!pictures) throw new Unusable(`${name} cannot be sent: the agent of this session cannot see pictures.`);
    const small = file.size > LARGEST / 2 && file.type !== "image/gif" ? await shrink(file) : file;
    if (small.size > LARGEST) throw new Unusable(`${name} is larger than ${LARGEST >> 20} MB.`);
    const data = await base64(small);
    const source = { type: "base64", media_type: small.type, data };
    return { ...made, block: { type: "image", source }, preview: `data:${small.type};base64,${data}` };
  }
  if (file.type === "application/pdf") {
    if (file.size > LARGEST) throw new Unusable(`${name} is larger than ${LARGEST >> 20} MB.`);
    const source = { type: "base64", media_type: file.type, data: await base64(file) };
    return { ...made, block: { type: "document", source, title: name }, preview: "" };
  }
  if (file.size > LARGEST_TEXT) throw new Unusable(`${name} is too large to send as text.`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (bytes.includes(0)) throw new Unusable(`${name} is not text, a picture or a PDF.`);
  const text = new TextDecoder().decode(bytes);
  return { ...made, block: { type: "text", text: `<file name="${name.replaceAll('"', "'")}">\n${text}\n</file>` }, preview: "" };
}

const NAMED = /^<file name="([^"]*)">/;

/** Splits a message for editing: its last text block was typed, the blocks before it are attachments. */
export function attachedOf(content: Block[]): { text: string; attached: Attachment[] } {
  const last = content.at(-1);
  const typed = last?.type === "text" ? String((last as { text?: unknown }).text ?? "") : "";
  const text = NAMED.test(typed) ? "" : typed;
  const files = text ? content.slice(0, -1) : content;
  return { text, attached: files.map((block) => ({ id: crypto.randomUUID(), block, ...shownAs(block) })) };
}

function shownAs(block: Block): Pick<Attachment, "name" | "preview"> {
  const { text, title, source } = block as { text?: unknown; title?: unknown; source?: Record<string, unknown> };
  if (block.type === "image" && source?.["type"] === "base64" && PICTURES.has(String(source["media_type"])))
    return { name: "picture", preview: `data:${String(source["media_type"])};base64,${String(source["data"])}` };
  const named = NAMED.exec(String(text ?? ""))?.[1];
  return { name: named ?? (typeof title === "string" ? title : "attached"), preview: "" };
}

async function base64(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

/** Photos of phones have more pixels than any model uses. */
async function shrink(file: File): Promise<Blob> {
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, 2000 / Math.max(picture.width, picture.height));
  const canvas = new OffscreenCanvas(Math.round(picture.width * scale), Math.round(picture.height * scale));
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.85 });
}
