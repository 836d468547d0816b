/**
 * Bodies on their way through an exchange: how much is held, what a filter changes,
 * and what models and events get.
 */
import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { gzipSync } from "node:zlib";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  BodyBuffer,
  BufferBudget,
  ClientBody,
  type Receiving,
} from "../../../lib/network/exchange/body_buffer.ts";
import { filterBytes, prepareBody } from "../../../lib/network/exchange/filtered_body.ts";
import { modelBodyOf } from "../../../lib/network/exchange/model_tap.ts";
import type { IncomingRequest } from "../../../lib/network/exchange/request.ts";
import { Revocation } from "../../../lib/network/exchange/revocation.ts";
import { ClientLost, ConnectionLost, type MessageFault } from "../../../lib/network/fault.ts";
import { BUFFERED_BODY_MAX, BUFFERED_TOTAL_MAX, CAPTURE_MAX } from "../../../lib/network/limit.ts";
import { type BodySource, NO_BODY, WholeBody } from "../../../lib/network/message/body.ts";
import { BodyRecorder } from "../../../lib/network/message/text.ts";
import type { Header } from "../../../lib/network/message/header.ts";
import { type BodyFilter, CredentialDenied } from "../../../lib/network/interface/mod.ts";

const text = (value: string) => new TextEncoder().encode(value);
const decode = (bytes: Uint8Array | null) => bytes && new TextDecoder().decode(bytes);

/** A body that comes in pieces. @param length as its head declares it */
function bodyOf(pieces: (string | Uint8Array)[], length?: number, trailers: Header[] = []) {
  const rest = pieces.map((piece) => typeof piece === "string" ? text(piece) : piece);
  const body = {
    ...(length !== undefined && { length }),
    trailers,
    done: false,
    get ready() {
      return rest.length > 0;
    },
    read() {
      const piece = rest.shift() ?? null;
      body.done = rest.length === 0;
      return Promise.resolve(piece);
    },
  };
  return body;
}

async function textOf(body: BodySource): Promise<string> {
  let all = "";
  for (let piece = await body.read(); piece !== null; piece = await body.read()) all += decode(piece);
  return all;
}

Deno.test("a body is held whole up to a limit, and counts against the budget until it is released", async (t) => {
  const beginning = CAPTURE_MAX + 1;
  const cases: [name: string, length: number | undefined, needed: number, taken: number, held: number][] = [
    ["short", 10, 0, 0, 10],
    ["short, with more needed", 10, 100, 0, 10],
    ["of the limit", BUFFERED_BODY_MAX, 0, 0, BUFFERED_BODY_MAX],
    ["over the limit", BUFFERED_BODY_MAX + 1, 0, 0, beginning],
    ["over the limit, with more needed", BUFFERED_BODY_MAX + 1, 100_000, 0, 100_000],
    ["of unknown length", undefined, 0, 0, beginning],
    ["of unknown length, with more needed", undefined, beginning + 1, 0, beginning + 1],
    ["of unknown length, with endlessly more needed", undefined, Infinity, 0, BUFFERED_BODY_MAX],
    ["the rest of the budget", 100_000, 0, BUFFERED_TOTAL_MAX - 100_000, 100_000],
    ["more than the rest of the budget", 100_000, 0, BUFFERED_TOTAL_MAX - 99_999, beginning],
    ["short, beyond the budget", 10, 0, BUFFERED_TOTAL_MAX, 10],
  ];
  for (const [name, length, needed, taken, held] of cases) {
    await t.step(name, async () => {
      const budget = new BufferBudget();
      budget.bytes = taken;
      const buffer = new BodyBuffer(budget);
      const pieces = [new Uint8Array(held - 1), new Uint8Array(1), new Uint8Array(7)];
      const body = bodyOf(held === length ? pieces.slice(0, 2) : pieces, length);
      let ends = 0;
      const { first, complete, rest } = await buffer.read(
        { body } as unknown as IncomingRequest,
        needed,
        () => {
          ends++;
        },
      );
      assertEquals([first.length, budget.bytes - taken, complete], [held, held, held === length]);
      assertEquals([ends, rest.length], [complete ? 1 : 0, length]);
      assertEquals((await textOf(rest)).length, complete ? 0 : 7);
      buffer.release();
      buffer.release();
      assertEquals(budget.bytes, taken);
    });
  }
});

Deno.test("a full budget is taken from what arrives slowly, the oldest first", () => {
  const [slow, patient] = [new BufferBudget(0, 100), new BufferBudget(60_000, 100)];
  for (const [budget, ended] of [[slow, ["b", "c"]], [patient, []]] as const) {
    const ends: string[] = [];
    const holding = (name: string): Receiving => ({
      end() {
        ends.push(name);
        budget.bytes -= 25;
      },
    });
    const all = ["a", "b", "c", "d"].map(holding);
    for (const each of all) {
      assertEquals(budget.take(25), true);
      budget.begin(each);
    }
    // Its second piece makes it no younger, and what is complete keeps its room.
    budget.begin(all[1]);
    budget.complete(all[0]);
    assertEquals([budget.take(50), ends], [ended.length > 0, [...ended]]);
    assertEquals(budget.bytes, 100);
  }
});

Deno.test("what a request can do without has a half of the budget at most, and ends nothing for it", () => {
  const budget = new BufferBudget(0, 100);
  let hasEnded = false;
  budget.begin({ end: () => void (hasEnded = true) });
  assertEquals([30, 30, 20, 1].map((bytes) => budget.takeSpare(bytes)), [true, false, true, false]);
  assertEquals([budget.bytes, hasEnded], [50, false]);
});

Deno.test("a body that others make room for ends as its client's fault", async () => {
  const budget = new BufferBudget(0, 200_000);
  const buffer = new BodyBuffer(budget);
  // One that is complete keeps its room, whatever others need.
  const whole = bodyOf([new Uint8Array(70_000), new Uint8Array(10_000)], 80_000);
  await new BodyBuffer(budget).read({ body: whole } as unknown as IncomingRequest, 0, () => {});
  budget.bytes -= 80_000;
  const rest = [new Uint8Array(100_000)];
  const body = {
    ...bodyOf([]),
    length: 150_000,
    read: () => rest.length ? Promise.resolve(rest.pop()!) : new Promise(() => {}),
  };
  const reading = buffer.read({ body } as unknown as IncomingRequest, 0, () => {});
  const lost = assertRejects(() => reading, ClientLost);
  await new Promise((resolve) => setTimeout(resolve));
  assertEquals(budget.bytes, 150_000);
  assertEquals([budget.take(200_000), budget.bytes], [true, 200_000]);
  assertStringIncludes(((await lost).cause as MessageFault).reason, "others needed its room");
});

Deno.test("an error of a request's body is the client's", async () => {
  const cause = new ConnectionLost("dropped the connection");
  const broken = { ...bodyOf(["a"]), read: () => Promise.reject(cause) };
  const lost = await assertRejects(() => new ClientBody(broken, () => {}).read(), ClientLost);
  assertEquals([lost.cause, lost.why], [cause, cause.why]);
  const body = new ClientBody(bodyOf(["a"], 1, [["x", "1"]]), () => {});
  assertEquals([body.length, body.trailers, body.done, body.ready], [1, [["x", "1"]], false, true]);
});

/** Replaces each "a" by `with`, and holds the last byte back. */
function filterOf(replacement: string, keepsLength = false): BodyFilter {
  let held = "";
  const changed = (value: string) => text(value.replaceAll("a", replacement));
  return {
    keepsLength,
    searching: true,
    substitutions: [],
    push(chunk) {
      const all = held + decode(chunk);
      held = all.slice(-1);
      return changed(all.slice(0, -1));
    },
    end: () => changed(held),
  };
}

Deno.test("a whole body goes through its filter with what that held back, and its trailers are looked at", () => {
  assertEquals(decode(filterBytes(text("banana"), filterOf("o"))), "bonono");
  const none = { ...filterOf("o"), push: text.bind(null, "x") as never, end: () => new Uint8Array() };
  assertEquals(decode(filterBytes(text("banana"), none)), "x");
  const rest = new WholeBody(new Uint8Array(), [["x", "1"], ["y", "2"]]);
  const held = { first: text("banana"), complete: true, rest };
  const sent = prepareBody(held, filterOf("oo"), (trailers) => trailers.slice(1)) as WholeBody;
  assertEquals([decode(sent.bytes), sent.length, sent.trailers], ["boonoonoo", 9, [["y", "2"]]]);
  const plain = prepareBody({ ...held, rest: NO_BODY }, undefined, () => [["never", "asked"]]) as WholeBody;
  assertEquals([decode(plain.bytes), plain.trailers], ["banana", []]);
});

Deno.test("a body that streams has its trailers looked at once, at its end", async () => {
  let looks = 0;
  const trailersOf = (trailers: readonly Header[]) => {
    looks++;
    return trailers.slice(1);
  };
  const rest = bodyOf(["nana"], 6, [["x", "1"], ["y", "2"]]);
  const body = prepareBody({ first: text("ba"), complete: false, rest }, undefined, trailersOf);
  assertEquals([body.length, body.ready, body.done, looks], [6, true, false, 0]);
  assertEquals(body.trailers.length, 2);
  assertEquals([await textOf(body), body.ready, body.done], ["banana", false, true]);
  assertEquals([body.trailers, body.trailers, looks], [[["y", "2"]], [["y", "2"]], 1]);
  const none = prepareBody({ first: text("ba"), complete: false, rest: bodyOf([]) }, undefined, trailersOf);
  assertEquals([await textOf(none), none.trailers, looks], ["ba", [], 1]);
});

Deno.test("a body that streams through a filter keeps the length that was sent, or is cut", async () => {
  const open = (filter: BodyFilter, length?: number) =>
    prepareBody({ first: text("ba"), complete: false, rest: bodyOf(["nana"], length) }, filter, (all) => all);
  const same = open(filterOf("o", true), 6);
  assertEquals([same.length, await textOf(same), same.done], [6, "bonono", true]);
  const chunked = open(filterOf("oo"), 6);
  assertEquals([chunked.length, await textOf(chunked)], [undefined, "boonoonoo"]);
  const unknown = open(filterOf("oo", true));
  assertEquals([unknown.length, await textOf(unknown)], [undefined, "boonoonoo"]);
  for (const replacement of ["oo", ""]) {
    const changed = open(filterOf(replacement, true), 6);
    await assertRejects(() => textOf(changed), CredentialDenied, "too long to be changed");
  }
});

Deno.test("a model's reader gets the body without encoding, and why it is not whole", async () => {
  const zipped = gzipSync("hello");
  const cases: [encoding: string, first: Uint8Array, complete: boolean, bytes: string, fault?: string][] = [
    ["", text("hello"), true, "hello"],
    ["", text("hel"), false, "hel", "its body is too long to be held"],
    ["gzip", zipped, true, "hello"],
    [
      "gzip",
      zipped.subarray(0, -1),
      true,
      "hello",
      "its content encoding is damaged, or its body too long to be held",
    ],
    ["pack", text("hello"), true, "hello", "its content encoding pack is unknown"],
  ];
  for (const [encoding, first, complete, bytes, fault] of cases) {
    const head = {
      method: "POST",
      target: "/",
      headers: (encoding ? [["content-encoding", encoding]] : []) as Header[],
    };
    const read = await modelBodyOf(head, { first, complete, rest: NO_BODY }, undefined);
    assertEquals({ ...read, bytes: decode(read.bytes) }, { bytes, ...(fault && { fault }) });
    const rewritten = await modelBodyOf(head, { first, complete, rest: NO_BODY }, text("new"));
    assertEquals({ ...rewritten, bytes: decode(rewritten.bytes) }, { bytes: "new" });
  }
});

Deno.test("a credential that is revoked ends its request, until that has ended", () => {
  const [first, second] = [new AbortController(), new AbortController()];
  let calls = 0;
  const open = () => new Revocation([undefined, first.signal, second.signal], () => calls++);
  const [running, ended] = [open(), open()];
  ended.end();
  assertEquals([running.happened, calls], [false, 0]);
  second.abort();
  assertEquals([running.happened, ended.happened, calls], [true, true, 1]);
  const error = assertThrows(open, SbxError);
  assertEquals([error.code, calls], ["credential.denied", 1]);
});

Deno.test("the record of a body is cut at its limit, which is itself whole", async (t) => {
  const plain = { content_type: "text/plain", scrub: (value: string) => value };
  const gzip = { ...plain, content_encoding: "gzip" };
  const a = (count: number) => text("a".repeat(count));
  const zipped = gzipSync(a(1000));
  const cases: [
    name: string,
    kind: typeof plain,
    body: Uint8Array,
    complete: boolean,
    want: [state: string, length: number | undefined, truncated: boolean],
  ][] = [
    ["of the limit", plain, a(CAPTURE_MAX), true, ["text", CAPTURE_MAX, false]],
    ["a byte more", plain, a(CAPTURE_MAX + 1), true, ["text", CAPTURE_MAX, true]],
    ["of the limit, and more follows", plain, a(CAPTURE_MAX), false, ["text", CAPTURE_MAX, true]],
    ["nothing, and more follows", plain, a(0), false, ["missing", undefined, true]],
    ["gzip of the limit", gzip, gzipSync(a(CAPTURE_MAX)), true, ["text", CAPTURE_MAX, false]],
    ["gzip of a byte more", gzip, gzipSync(a(CAPTURE_MAX + 1)), true, ["text", CAPTURE_MAX, true]],
    ["gzip without its end", gzip, zipped.subarray(0, -4), true, ["binary", undefined, false]],
    ["gzip without its end, and more follows", gzip, zipped.subarray(0, -4), false, ["text", 1000, true]],
    ["no gzip, and more follows", gzip, a(20), false, ["binary", undefined, true]],
  ];
  for (const [name, kind, body, complete, want] of cases) {
    await t.step(name, async () => {
      const recorder = new BodyRecorder();
      recorder.add(body.subarray(0, 10));
      recorder.add(body.subarray(10, CAPTURE_MAX - 1));
      recorder.add(body.subarray(CAPTURE_MAX - 1));
      const { state, text, truncated, size } = await recorder.record(kind, complete);
      assertEquals([[state, text?.length, truncated], size], [want, body.length]);
    });
  }
});
