/** Asks in the terminal of `sbx agent`: a line that was typed for one ask answers no other. */
import { assertEquals } from "@std/assert";
import { answerOf, choicesOf, showAsks } from "../../../cmd/sbx/vm/shown_asks.ts";
import type { AskView } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { READ_MS } from "../../../lib/policy/ask/mod.ts";

const ask = (ask_id: string) => ({
  ask_id,
  digest: `digest-of-${ask_id}`,
  session_id: "s",
  event_type: "http.request",
  subject: ask_id,
  rule_id: "r",
  reason: "",
  status: "pending",
});

/** Lines that a person types, each with the `ms` after its question. */
const TYPED = [["y", READ_MS + 10], ["y", 0], ["n", READ_MS + 10]] as const;

Deno.test("a line typed before its question could be read is no answer", async () => {
  const { stdin } = Deno;
  const { prompt } = globalThis;
  const isTerminal = stdin.isTerminal;
  const lines = [...TYPED];
  const both = Promise.withResolvers<void>();
  const answers: unknown[] = [];
  const client = {
    socket: () => ({ close() {} }),
    json(method: string, path: string, options?: { json: unknown }) {
      if (method === "GET") return Promise.resolve({ asks: [ask("harmless"), ask("dangerous")] });
      answers.push([path, options?.json]);
      if (answers.length === 2) both.resolve();
      return Promise.resolve({});
    },
  } as unknown as Client;
  try {
    stdin.isTerminal = () => true;
    globalThis.prompt = () => {
      const [line, ms] = lines.shift()!;
      // It blocks, as the terminal does.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      return line;
    };
    using _ = showAsks(client, "s");
    await both.promise;
  } finally {
    stdin.isTerminal = isTerminal;
    globalThis.prompt = prompt;
  }
  const answer = (decision: string, digest: string) => ({ decision, scope: "once", digest });
  assertEquals(answers, [
    ["/asks/harmless/resolve", answer("allow", "digest-of-harmless")],
    ["/asks/dangerous/resolve", answer("deny", "digest-of-dangerous")],
  ]);
});

Deno.test("an answer that the service does not take is reported, and so are asks that cannot be read", async () => {
  const { stdin } = Deno;
  const { prompt } = globalThis;
  const isTerminal = stdin.isTerminal;
  const { error } = console;
  const lines: string[] = [];
  const expired = new SbxError("ask.not_found", "the ask has expired", { hint: "run the command again" });
  const answered = Promise.withResolvers<void>();
  const client = {
    socket: () => ({ close() {} }),
    async json(method: string) {
      if (method === "GET") return { asks: [ask("late")] };
      await Promise.resolve().then(answered.resolve);
      throw expired;
    },
  } as unknown as Client;
  const unreachable = {
    socket: () => ({ close() {} }),
    json: () => Promise.reject(new SbxError("service.unreachable", "the service does not answer")),
  } as unknown as Client;
  const turns = () => new Promise((resolve) => setTimeout(resolve, 10));
  try {
    stdin.isTerminal = () => true;
    globalThis.prompt = () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, READ_MS + 10);
      return "y";
    };
    console.error = (line: string) => lines.push(line);
    {
      using _ = showAsks(client, "s");
      await answered.promise;
      await turns();
    }
    using _ = showAsks(unreachable, "s");
    await turns();
  } finally {
    stdin.isTerminal = isTerminal;
    globalThis.prompt = prompt;
    console.error = error;
  }
  assertEquals(lines.slice(1), [
    "sbx: the answer to late was not taken: the ask has expired; run the command again",
    "sbx: pending asks cannot be read: the service does not answer",
  ]);
});

Deno.test("each letter is the answer that its question shows, also for always; another is a no", () => {
  const whole = {
    ...ask("x"),
    covers: "C",
    covers_path: "P",
    covers_method: "M",
    covers_host: "H",
  } as AskView;
  const once = ask("y") as AskView;
  assertEquals(
    choicesOf(whole),
    "allow? y = once, s = for the session (C), p = for the session (P), m = for the session (M), " +
      "h = for the session (H), a = always, as s by a rule (ap, am, ah: as p, m, h), n = no",
  );
  assertEquals(choicesOf(once), "allow? y = once, s = for the session, n = no");
  const session = { decision: "allow", scope: "session" };
  for (
    const [typed, answer] of [
      ["a", session],
      ["ah", { ...session, of: "host" }],
      [" AP ", { ...session, of: "path" }],
      ["am", { ...session, of: "method" }],
    ] as const
  ) {
    assertEquals(answerOf(whole, typed), answer, typed);
    assertEquals(answerOf(once, typed).decision, "deny", typed);
  }
  for (const typed of ["ax", "always", "an", "", null]) assertEquals(answerOf(whole, typed).decision, "deny");
});
