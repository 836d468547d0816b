/** The first bytes of a client of git, however it cuts them. */
import { assert, assertEquals } from "@std/assert";
import { readCall } from "../../../../lib/network/ssh/git.ts";

/** A client that sends these bytes one by one, and then waits for ever. */
function byteByByte(text: string) {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return {
    next: () =>
      at < bytes.length
        ? Promise.resolve(bytes.slice(at, ++at))
        : Promise.reject(new Error("it waits for bytes behind the end")),
  };
}

Deno.test("commands are whole, however a client cuts them", async () => {
  const command = `${"0".repeat(40)} ${"1".repeat(40)} refs/heads/main\0report-status`;
  const packet = (command.length + 4).toString(16).padStart(4, "0") + command;
  const text = `${packet}0000`;
  const { bytes, isIdle, push } = await readCall(byteByByte(text), true);
  assertEquals([new TextDecoder().decode(bytes), isIdle, push?.fault], [text, false, undefined]);
  assertEquals(push?.updates.map(({ kind, ref }) => [kind, ref]), [["create", "refs/heads/main"]]);
  assertEquals((await readCall(byteByByte("0000"), true)).isIdle, true);
  assertEquals(new TextDecoder().decode((await readCall(byteByByte("0032want"), false)).bytes), "0032");
});

Deno.test("packets that come byte by byte are looked at about once each", async () => {
  const packets = 1000;
  const { decode } = TextDecoder.prototype;
  let looks = 0;
  TextDecoder.prototype.decode = function (...args) {
    looks++;
    return decode.apply(this, args);
  };
  try {
    const { push } = await readCall(byteByByte(`${"0004".repeat(packets)}0000`), true);
    assertEquals(push?.fault, "a packet of length 4");
  } finally {
    TextDecoder.prototype.decode = decode;
  }
  assert(looks < 2 * packets, `${looks} looks at ${packets} packets`);
});
