import { assertEquals, assertThrows } from "@std/assert";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { encode, world } from "../../helper/credential.ts";

const HEAD = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.";

for (const rest of ["", "ab"]) {
  Deno.test(
    `a decoy that is hardly more than the head of a token ends no other stream (${rest.length} more)`,
    world([{ provider: "github", secret: HEAD + rest, decoy: true }], async ({ open }) => {
      const search = (await open()).decoys("db.example", "statement");
      const text = encode("select ab from labels;");
      assertEquals(search.push(text).length + search.end().length, text.length);
      assertThrows(() => search.push(encode(`insert '${HEAD}${rest}';`)), CredentialDenied);
    }),
  );
}
