/** Parts of samples of model calls. */
import type { ModelEvent } from "../../lib/event/mod.ts";

type Response = NonNullable<ModelEvent["response"]>;

/** One call. */
export interface WireSample {
  what: string;
  host: string;
  path: string;
  request: unknown;
  expected: Partial<ModelEvent["request"]>;
  status: number;
  content_type: string;
  /** text, or the bytes of a binary stream */
  response: string | Uint8Array<ArrayBuffer>;
  answer: Response;
}

/** Server-sent events as Anthropic writes them, or with data alone. */
export function sse(events: unknown[], { named = false, end = "\n", done = false } = {}): string {
  const blocks = events.map((data) => {
    const name = named ? `event: ${(data as { type: string }).type}${end}` : "";
    return `${name}data: ${JSON.stringify(data)}${end}${end}`;
  });
  return `: keep-alive${end}${end}` + blocks.join("") + (done ? `data: [DONE]${end}${end}` : "");
}

export const weather = { city: "Zürich – 北京 🌦", days: [1, 2] };
export const [half, rest] = [JSON.stringify(weather).slice(0, 11), JSON.stringify(weather).slice(11)];
