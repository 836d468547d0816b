/**
 * What host and guest programs say to each other changes with its version alone: images
 * outlive the sbx that built them.
 */
import { assertEquals } from "@std/assert";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { GUEST_VERSION } from "../../../lib/machine/guest/wire/mod.ts";
import { fromRoot } from "../../helper/repo.ts";

/** The version, and the hash of the messages in it. */
const KNOWN = { version: "13", hash: "037d230957dd4617" };

Deno.test("messages between host and guest have not changed without a new GUEST_VERSION", async () => {
  const texts = await Promise.all(
    ["wire/messages.ts", "wire/limit.ts", "schema.ts"].map((name) =>
      Deno.readTextFile(fromRoot(`lib/machine/guest/${name}`))
    ),
  );
  assertEquals(
    { version: GUEST_VERSION, hash: blake3(texts.map(code).join("")).slice(0, 16) },
    KNOWN,
    "raise GUEST_VERSION in lib/machine/guest/wire/version.ts, and write the new hash here",
  );
});

/** A file without its comments, its layout and the places that it imports from. */
function code(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "").replace(/ from "\.[^"]*"/g, "")
    .replace(/\s+/g, "");
}
