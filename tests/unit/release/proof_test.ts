/** Proof of revocations: the publisher's word, checked by another user's keys. */
import { assertEquals } from "@std/assert";
import { NO_PROOFS, provenRevocations, unproven } from "../../../lib/release/memory/proof.ts";
import { Client, hmacKey, INDEX_URL, Publisher } from "../../helper/release.ts";

const KEY = { url: INDEX_URL.href, channel: "stable" };

for (const kind of ["signed", "HMAC only"] as const) {
  Deno.test(`a proof shows what its publisher revoked, to its keys alone (${kind})`, async () => {
    const publisher = await Publisher.start();
    const keys = kind === "signed" ? publisher.keys : publisher.hmacOnly;
    await using client = await Client.of(publisher, keys);
    const shown = async (text: string, by = keys) =>
      (await provenRevocations(text, by)).followed.flatMap(({ manifests }) => Object.keys(manifests));
    await publisher.release("1.0.0");
    await publisher.release("1.1.0");
    await publisher.release("1.2.0");
    await client.check();
    assertEquals(await client.memory.proofs(), NO_PROOFS);
    await publisher.mark("1.0.0", "revoked");
    await client.check();
    const text = await Deno.readTextFile(client.memory.proofPath);
    assertEquals(await shown(text), ["1.0.0"]);
    await publisher.mark("1.1.0", "revoked");
    assertEquals(
      unproven(await client.memory.proofs(), KEY, publisher.index.channels.stable.manifests).length,
      1,
    );
    await client.check();
    const { proofs } = await client.memory.proofs();
    assertEquals(proofs.map(({ manifests }) => Object.keys(manifests)), [["1.0.0", "1.1.0"]]);
    // The first proof stays true, and no other one comes of a check that learns nothing.
    assertEquals(await shown(text), ["1.0.0"]);
    await client.check();
    assertEquals((await client.memory.proofs()).proofs.length, 1);

    const file = JSON.parse(text);
    const [proof] = file.proofs;
    const other = (change: object) => JSON.stringify({ ...file, proofs: [{ ...proof, ...change }] });
    const another = await client.memory.proofs().then(({ proofs: [{ manifests }] }) => manifests["1.1.0"]);
    for (
      const forged of [
        other({ document: btoa("{}") }),
        other({ manifests: { "1.0.0": another } }),
        other({ manifests: { "1.2.0": another } }),
        other({ channel: "other" }),
        other({ manifests: { "1.0.0": btoa(atob(proof.manifests["1.0.0"]) + " ") } }),
        "",
        "[]",
      ]
    ) {
      assertEquals(await shown(forged), [], forged.slice(0, 60));
    }
    const { trusted } = (await Publisher.start()).keys;
    const strangers = kind === "signed" ? { ...keys, trusted } : { hmac: [hmacKey("k1", 0x22)], trusted: [] };
    assertEquals(await shown(text, strangers), []);
  });
}
