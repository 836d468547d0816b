/** Calls of models and tools in order, from two lists that are read page by page. */
import { assertEquals } from "@std/assert";
import type { RecordedEvent } from "../../../../cmd/desktop/api/routes.ts";
import { Conversation } from "../../../../cmd/desktop/page/vm/calls/conversation.ts";
import { connection } from "../../../../cmd/desktop/store/store.ts";

/** A record: models at even sequences, tools at odd ones below `tools`. */
function pagesOf(events: () => RecordedEvent[], asked: string[] = []) {
  return ((_: string, { family, cursor, limit }: Record<string, string>) => {
    asked.push(`${family} ${cursor ?? ""}`.trim());
    const before = cursor === undefined ? Infinity : Number(cursor);
    const all = events().filter((event) => event[family as "model"]).filter(({ common }) =>
      common.sequence < before
    )
      .toReversed();
    const page = all.slice(0, Number(limit));
    const isCut = all.length > page.length;
    return Promise.resolve({
      events: page,
      next_cursor: isCut ? String(page.at(-1)!.common.sequence) : undefined,
    });
  }) as unknown as ConstructorParameters<typeof Conversation>[3];
}

function call(sequence: number, family: "model" | "mcp"): RecordedEvent {
  const common = { event_id: String(sequence), event_type: `${family}.call`, sequence, timestamp_unix_ms: 0 };
  return { common, [family]: { request: {}, response: {} } } as unknown as RecordedEvent;
}

/** Waits until the conversation has read. */
async function shown(conversation: Conversation, count: number): Promise<number[]> {
  await new Promise<void>((resolve) => {
    let stop = () => {};
    stop = conversation.calls.subscribe((calls) => {
      if (calls?.length === count) queueMicrotask(() => [stop(), resolve()]);
    });
  });
  return conversation.calls.peek()!.map(({ common }) => common.sequence);
}

Deno.test("calls of both kinds are one list in order, with nothing left out between them", async () => {
  connection.value = "online";
  const count = 300;
  const events = Array.from({ length: count }, (_, at) => call(at + 1, at % 3 === 0 ? "mcp" : "model"));
  const conversation = new Conversation("s", undefined, "", pagesOf(() => events));
  try {
    // 50 models reach back to the event 227; the tools before that wait for them.
    const first = await shown(conversation, 74);
    assertEquals(first, Array.from({ length: 74 }, (_, at) => 227 + at));
    while (conversation.hasOlder.value) await conversation.older();
    assertEquals(
      conversation.calls.value!.map(({ common }) => common.sequence),
      events.map((_, at) => at + 1),
    );
  } finally {
    conversation.close();
    connection.value = "connecting";
  }
});

Deno.test("after an outage the newest calls replace older ones that they do not join", async () => {
  connection.value = "online";
  let events = [call(1, "model"), call(2, "mcp"), call(3, "model")];
  const conversation = new Conversation("s", undefined, "", pagesOf(() => events));
  try {
    assertEquals(await shown(conversation, 3), [1, 2, 3]);
    connection.value = "offline";
    events = [...events, ...Array.from({ length: 120 }, (_, at) => call(at + 4, "model"))];
    connection.value = "online";
    const last = await shown(conversation, 50);
    assertEquals([last[0], last.at(-1)], [74, 123]);
    while (conversation.hasOlder.value) await conversation.older();
    assertEquals(conversation.calls.value!.length, 123);
  } finally {
    conversation.close();
    connection.value = "connecting";
  }
});

Deno.test("of one kind only that kind is read", async () => {
  connection.value = "online";
  const asked: string[] = [];
  const conversation = new Conversation(
    "s",
    "mcp",
    "",
    pagesOf(() => [call(1, "model"), call(2, "mcp")], asked),
  );
  try {
    assertEquals(await shown(conversation, 1), [2]);
    assertEquals(asked, ["mcp"]);
  } finally {
    conversation.close();
    connection.value = "connecting";
  }
});
