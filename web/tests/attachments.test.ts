// A message that waits is taken back to be changed: nothing that came with it may be lost.

import { expect, test } from "vitest";
import { attachedOf } from "../src/pages/sessions/attachments";

const PNG = { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } };
const PDF = { type: "document", title: "plan.pdf", source: { type: "base64", media_type: "application/pdf", data: "aGk=" } };
const FILE = { type: "text", text: '<file name="notes.txt">\nwords\n</file>' };

test("what was typed goes back into the field, what was attached stays attached", () => {
  const { text, attached } = attachedOf([FILE, PNG, PDF, { type: "text", text: "look at these" }]);
  expect(text).toBe("look at these");
  expect(attached.map((one) => one.block)).toEqual([FILE, PNG, PDF]);
  expect(attached.map((one) => one.name)).toEqual(["notes.txt", "picture", "plan.pdf"]);
  expect(attached.map((one) => one.preview)).toEqual(["", "data:image/png;base64,aGk=", ""]);
});

test("a message of pictures alone has no text", () => {
  expect(attachedOf([PNG])).toMatchObject({ text: "", attached: [{ block: PNG }] });
  expect(attachedOf([FILE])).toMatchObject({ text: "", attached: [{ block: FILE, name: "notes.txt" }] });
});

test("a picture from elsewhere is never loaded as a preview", () => {
  const far = { type: "image", source: { type: "url", url: "https://example.org/a.png" } };
  expect(attachedOf([far]).attached[0]?.preview).toBe("");
});
