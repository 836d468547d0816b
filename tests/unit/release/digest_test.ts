import { assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { digestBytes, digestFile, requireDigests } from "../../../lib/release/mod.ts";
import { bytesOf } from "../../helper/release.ts";

const BYTES = bytesOf("abc");

Deno.test("digests of bytes and files are SHA-256 and BLAKE3", async () => {
  const expected = {
    sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    blake3: "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    bytes: 3,
  };
  assertEquals(digestBytes(BYTES), expected);
  const dir = await Deno.makeTempDir();
  await Deno.writeFile(join(dir, "f"), BYTES);
  let counted = 0;
  assertEquals(await digestFile(join(dir, "f"), (bytes) => counted += bytes), expected);
  assertEquals(counted, 3);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("an artifact is refused unless size and both digests match", () => {
  const good = digestBytes(BYTES);
  requireDigests(good, good, "x.deb");
  requireDigests(good, { sha256: good.sha256, blake3: good.blake3 }, "x.deb");
  const zeros = "0".repeat(64);
  for (
    const [expected, problem] of [
      [{ ...good, bytes: 2 }, "x.deb is not what its record says: it has 3 bytes, not 2"],
      [{ ...good, blake3: zeros }, "its BLAKE3 is"],
      [{ ...good, sha256: zeros }, "its SHA-256 is"],
    ] as const
  ) assertThrows(() => requireDigests(good, expected, "x.deb"), SbxError, problem);
});
