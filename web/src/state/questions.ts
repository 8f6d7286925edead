// The agent's questions, parsed leniently: the input may have any shape.

export interface Asked {
  question: string;
  header: string;
  several: boolean;
  options: { label: string; about: string }[];
}

export function questionsOf(given: Record<string, unknown>[]): Asked[] {
  return given.map((one) => ({
    question: text(one["question"]),
    header: text(one["header"]),
    several: one["multiSelect"] === true,
    options: (Array.isArray(one["options"]) ? (one["options"] as unknown[]) : []).map((option) => {
      const { label, description } = (typeof option === "object" && option !== null ? option : { label: option }) as {
        label?: unknown;
        description?: unknown;
      };
      return { label: text(label), about: text(description) };
    }),
  }));
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
