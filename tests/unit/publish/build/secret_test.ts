import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { parseSecret } from "../../../../lib/publish/build/mod.ts";

Deno.test("a secret of a build is a ref, and never a key of the host", () => {
  assertEquals(parseSecret("id=npm,ref=abc123"), { id: "npm", ref: "abc123" });
  assertEquals(parseSecret("type=file, id=npm , ref=abc123"), { id: "npm", ref: "abc123" });
  const invalid = [
    "id=npm",
    "ref=abc",
    "npm",
    "id=npm,src=key.txt",
    "id=npm,env=KEY",
    "id=npm,ref=abc,env=KEY",
    "id=../x,ref=a",
    "id=.x,ref=a",
    "id=a b,ref=c",
    "id=a,ref=b,uid=0",
    "",
  ];
  for (const text of invalid) {
    assertEquals(
      assertThrows(() => parseSecret(text), SbxError, undefined, text).code,
      "build.secret_invalid",
    );
  }
});
