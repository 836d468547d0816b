/** Filters for the messages of WebSockets (docs/design/contracts/09-credentials.md §9, "Messages"). */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { added, ALL, decode, encode, KEY, to, world } from "../../helper/credential.ts";

const HOST = to("chat.example.com");

Deno.test(
  "a message to an upstream: secrets, tokens and refs become placeholders of their length",
  world(added, async ({ open, refs }) => {
    const filter = (await open(ALL)).messages({ ...HOST, direction: "request" });
    const token = "ghp_0123456789abcdefghij0123456789abcdef";
    const text = `{"a":"${KEY.mcp}","b":"${token}","c":"${refs.openai}"}`;
    const passed = decode(filter.push(encode(text), true));
    assertEquals(passed.length, text.length);
    assertEquals(Object.keys(JSON.parse(passed)), ["a", "b", "c"]);
    assert(
      Object.values(JSON.parse(passed)).every((value) => `${value}`.startsWith("credential-withheld")),
      passed,
    );
    const rows = filter.substitutions.map(({ provider, outcome, reason, location, host }) =>
      [provider, outcome, reason, location, host].join()
    );
    const row = (provider: string) => `${provider},denied,withheld from a message,message,chat.example.com`;
    assertEquals(rows, [row("mcp"), row("github"), row("openai")]);
  }),
);

Deno.test(
  "a message to a guest: known secrets become refs, and other text with the shape of one passes",
  world(added, async ({ open, refs }) => {
    const filter = (await open(ALL)).messages({ ...HOST, direction: "response" });
    const token = "ghp_0123456789abcdefghij0123456789abcdef";
    const passed = decode(filter.push(encode(`${KEY.github} ${token} ${refs.openai}`), true));
    assertEquals(passed, `${refs.github} ${token} ${refs.openai}`);
    assertEquals(filter.substitutions.map(({ credential_ref, outcome }) => [credential_ref, outcome]), [[
      refs.github,
      "brokered",
    ]]);
  }),
);

Deno.test(
  "within a message a beginning is held back; at its end nothing is, and eight characters of a secret are withheld",
  world(added, async ({ open, refs }) => {
    const broker = await open(ALL);
    const response = () => broker.messages({ ...HOST, direction: "response" });
    const push = (filter: ReturnType<typeof response>, text: string, isLast: boolean) =>
      decode(filter.push(encode(text), isLast));
    const within = response();
    assertEquals(push(within, `x ${KEY.mcp.slice(0, 20)}`, false), "x ");
    assertEquals(push(within, `${KEY.mcp.slice(20)} y`, true), `${refs.mcp} y`);
    for (
      const [count, passed] of [[7, KEY.mcp.slice(0, 7)], [8, "withheld"], [
        20,
        "credential-withheld-",
      ]] as const
    ) {
      const filter = response();
      assertEquals(push(filter, `x ${KEY.mcp.slice(0, count)}`, true), `x ${passed}`);
      const rest = KEY.mcp.slice(count);
      const second = push(filter, `${rest} y`, true);
      assert(
        second.endsWith(" y") && second.length === rest.length + 2 && second.includes("withheld"),
        second,
      );
      const reasons = filter.substitutions.map(({ reason }) => reason);
      assertEquals(reasons.includes("a part withheld from a message"), count > 7);
    }
    // Another message in between: what follows begins nothing.
    const other = response();
    push(other, `x ${KEY.mcp.slice(0, 7)}`, true);
    assertEquals(push(other, "hello", true), "hello");
    assertEquals(push(other, KEY.mcp.slice(7), true), KEY.mcp.slice(7));
  }),
);

Deno.test(
  "messages without a match pass uncopied, also empty ones and bytes that are no text",
  world(added, async ({ open }) => {
    const filter = (await open(ALL)).messages({ ...HOST, direction: "request" });
    for (const bytes of [encode("nothing here"), Uint8Array.from([0, 255, 128, 13]), encode(".")]) {
      const passed = filter.push(bytes, true);
      assertEquals(passed, bytes);
      assertStrictEquals(passed.buffer, bytes.buffer);
    }
    assertEquals(filter.push(new Uint8Array(), false).length, 0);
    assertEquals(filter.push(new Uint8Array(), true).length, 0);
    assertEquals(filter.substitutions, []);
  }),
);

Deno.test(
  "a secret in three pieces, of one message or of several: no nine characters of it pass",
  world(added, async ({ open }) => {
    const broker = await open(ALL);
    const secret = KEY.mcp;
    for (const direction of ["request", "response"] as const) {
      for (let first = 1; first < secret.length; first++) {
        for (let second = first + 1; second <= secret.length; second += 3) {
          for (const ends of [[true, true], [true, false], [false, true], [false, false]]) {
            const filter = broker.messages({ ...HOST, direction });
            const pieces = [
              `. ${secret.slice(0, first)}`,
              secret.slice(first, second),
              `${secret.slice(second)} .`,
            ];
            const passed = pieces.map((piece, at) => decode(filter.push(encode(piece), ends[at] ?? true)))
              .join("");
            for (let at = 1; at + 9 <= secret.length; at++) {
              assert(
                !passed.includes(secret.slice(at, at + 9)),
                `${JSON.stringify(pieces)} ${ends}: ${passed}`,
              );
            }
            assert(passed.startsWith(". ") && passed.endsWith(" ."), passed);
          }
        }
      }
    }
  }),
);

Deno.test(
  "text that may only become a secret is not withheld at the end of a message",
  world(added, async ({ open }) => {
    const filter = (await open(ALL)).messages({ ...HOST, direction: "response" });
    for (
      const text of ["e . . . . . . . . . . .", "a\n\n\n\n\n\n\n\n\n\n", "&#x0000", "\\u00", "m=:=:=:=:=:=:"]
    ) {
      assertEquals(decode(filter.push(encode(text), true)), text);
    }
    assertEquals(filter.substitutions, []);
  }),
);

Deno.test(
  "a beginning that is drawn out is held back within a message up to 16 KiB, and no longer",
  world(added, async ({ open }) => {
    const broker = await open(ALL);
    const begin = KEY.mcp.slice(0, 10);
    for (const [held, passed] of [[16 * 1024, "x "], [16 * 1024 + 1, undefined]] as const) {
      const filter = broker.messages({ ...HOST, direction: "response" });
      const text = `x ${begin}${" ".repeat(held - begin.length)}`;
      assertEquals(decode(filter.push(encode(text), false)), passed ?? text);
    }
  }),
);
