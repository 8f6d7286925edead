// What an agent asks, whatever its shape.

import { describe, expect, it } from "vitest";
import { questionsOf } from "../src/state/questions";

describe("questions", () => {
  it("have options with what they mean, one or several of which may be chosen", () => {
    const options = [{ label: "Red", description: "warm" }, { label: "Blue" }];
    expect(questionsOf([{ question: "Which?", header: "Colour", options, multiSelect: true }])).toEqual([
      {
        question: "Which?",
        header: "Colour",
        several: true,
        options: [
          { label: "Red", about: "warm" },
          { label: "Blue", about: "" },
        ],
      },
    ]);
  });

  it("of another shape are still asked, as far as there is something to ask", () => {
    expect(questionsOf([{ question: 7, options: ["yes", null, { label: {} }] }, {}])).toEqual([
      {
        question: "",
        header: "",
        several: false,
        options: [
          { label: "yes", about: "" },
          { label: "", about: "" },
          { label: "", about: "" },
        ],
      },
      { question: "", header: "", several: false, options: [] },
    ]);
  });
});
