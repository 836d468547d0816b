/** The repository's signatures, judged by two programs that are not ours. */
import { assert } from "@std/assert";
import { join } from "node:path";
import { sh } from "./build.ts";

/** gpgv and sqv must accept index and keyring, and refuse a changed index. */
export async function requireSigned(dist: string, keyring: string): Promise<void> {
  const release = join(dist, "Release"), signature = join(dist, "Release.gpg");
  const checks = {
    "gpgv, Release": `gpgv --quiet --keyring ${keyring} ${signature} ${release}`,
    "gpgv, InRelease": `gpgv --quiet --keyring ${keyring} ${join(dist, "InRelease")}`,
    "sqv, Release": `sqv --keyring ${keyring} ${signature} ${release}`,
  };
  const text = await Deno.readTextFile(release);
  for (const [name, check] of Object.entries(checks)) {
    await sh(check);
    const path = name.endsWith("InRelease") ? join(dist, "InRelease") : release;
    const before = await Deno.readTextFile(path);
    await Deno.writeTextFile(
      path,
      before.replace(/Valid-Until: .*/, "Valid-Until: Fri, 01 Jan 2100 00:00:00 +0000"),
    );
    assert(await sh(check).then(() => false, () => true), `${name} accepts another time`);
    await Deno.writeTextFile(path, before);
    console.log(`ok: ${name}`);
  }
  assert(/^Acquire-By-Hash: yes$/m.test(text) && /^Valid-Until: /m.test(text));
}
