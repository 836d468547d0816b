import { assert, assertEquals } from "@std/assert";
import { Redactor } from "../../../../lib/base/redact/mod.ts";
import { Random } from "../../../helper/random.ts";
import { readSecretKinds, sampleOf } from "../../../helper/secret_kind.ts";

/** Samples of each kind. */
const SAMPLES = 22;
/** Characters of a secret in a row that count as shown. */
const SHOWN = 8;

Deno.test("at least 200 of the kinds that scanners know are redacted, in every sample", async () => {
  const redactor = new Redactor();
  const random = new Random(18);
  const kinds = await readSecretKinds();
  const missed = new Map<string, string>();
  for (const kind of kinds) {
    for (let sample = 0; sample < SAMPLES; sample++) {
      const { secret, text } = sampleOf(kind, random);
      const redacted = redactor.text(text);
      if (shows(redacted, secret)) missed.set(kind.id, `${text}\n    → ${redacted}`);
      assertEquals(redactor.text(redacted), redacted, "idempotent");
    }
  }
  const caught = kinds.length - missed.size;
  console.log(`      ${caught} of ${kinds.length} kinds, ${kinds.length * SAMPLES} samples`);
  for (const [id, text] of missed) console.log(`      missed ${id}: ${text}`);
  assertEquals(kinds.length, 222);
  assert(caught >= 200, [...missed.keys()].join(", "));
});

/** True when a part of a secret that is its own is in a text. */
function shows(text: string, secret: string): boolean {
  const tail = secret.slice(Math.floor(secret.length / 4));
  for (let at = 0; at + SHOWN <= tail.length; at++) {
    if (text.includes(tail.slice(at, at + SHOWN))) return true;
  }
  return false;
}
