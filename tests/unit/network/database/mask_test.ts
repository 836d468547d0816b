/** A password in the pieces of a message. */
import { assertEquals } from "@std/assert";
import { SecretMask } from "../../../../lib/network/database/mask.ts";

const SECRET = "aab-aabaac-12";
const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("a password is masked in its place, wherever a message is cut", () => {
  const text = `x${SECRET}${SECRET}aab-${SECRET} aab-aabaac-1`;
  const masked = text.replaceAll(SECRET, "*".repeat(SECRET.length));
  for (let cut = 0; cut <= text.length; cut++) {
    for (const size of [1, 3, 100]) {
      const mask = new SecretMask(SECRET);
      const bytes = encode(text);
      let out = decode(mask.push(bytes.subarray(0, cut), false));
      for (let at = cut; at < bytes.length; at += size) {
        out += decode(mask.push(bytes.subarray(at, at + size), at + size >= bytes.length));
      }
      if (cut === bytes.length) out += decode(mask.push(new Uint8Array(), true));
      assertEquals(out, masked, `cut at ${cut}, then by ${size}`);
    }
  }
});

Deno.test("the end of a message holds nothing back, and the next one has its own beginning", () => {
  const mask = new SecretMask(SECRET);
  assertEquals(decode(mask.push(encode(SECRET.slice(0, 5)), true)), SECRET.slice(0, 5));
  assertEquals(decode(mask.push(encode(SECRET.slice(5)), true)), SECRET.slice(5));
});
