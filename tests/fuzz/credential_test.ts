/**
 * Capturing and injecting restores any input of a guest, however it is cut, and no secret appears in between.
 * Seeds are fixed.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { SbxError } from "../../lib/base/error/mod.ts";
import { parseStore } from "../../lib/credential/entry.ts";
import { Finder } from "../../lib/credential/finder.ts";
import {
  CredentialBroker,
  CredentialStore,
  decoySecret,
  type Provider,
  refOf,
} from "../../lib/credential/mod.ts";
import { StreamReplacer } from "../../lib/credential/body.ts";
import type { Header } from "../../lib/network/mod.ts";
import { CredentialDenied } from "../../lib/network/interface/mod.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 1500;
const OWNED: [Provider, host: string, header: string][] = [
  ["anthropic", "api.anthropic.com", "x-api-key"],
  ["anthropic", "api.anthropic.com", "authorization"],
  ["openai", "api.openai.com", "authorization"],
  ["google", "generativelanguage.googleapis.com", "x-goog-api-key"],
  ["github", "api.github.com", "authorization"],
  ["github", "github.com", "authorization"],
];

async function withBroker(
  run: (broker: CredentialBroker, secrets: Map<Provider, string>) => void | Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  const store = new CredentialStore(join(dir, "store.json"));
  const secrets = new Map(
    (["anthropic", "openai", "google", "github"] as const).map((
      provider,
    ) => [provider, decoySecret(provider)]),
  );
  await store.add([...secrets].map(([provider, secret]) => ({ provider, secret })));
  const broker = await CredentialBroker.open({ store, providers: secrets.keys(), vm: "vm" });
  try {
    await run(broker, secrets);
  } finally {
    await broker.close();
    await Deno.remove(dir, { recursive: true });
  }
}

/** Header value in the format of some client. */
function formatHeader(random: Random, header: string, host: string, secret: string): string {
  if (header !== "authorization") return secret;
  if (host === "github.com") {
    return `Basic ${btoa(random.pick([`u:${secret}`, `${secret}:x-oauth-basic`, `${secret}:`]))}`;
  }
  return `${random.pick(["Bearer ", "bearer ", "Bearer  "])}${secret}`;
}

/** Asserts that a record contains no form of any secret. */
function assertClean(recorded: unknown, secrets: Iterable<string>) {
  const text = typeof recorded === "string" ? recorded : JSON.stringify(recorded);
  const decoded = text.replaceAll(
    /[A-Za-z0-9+/]{20,}={0,2}/g,
    (part) => Buffer.from(part, "base64").toString("latin1"),
  );
  for (const secret of secrets) {
    assert(!text.includes(secret) && !decoded.includes(secret), "the record contains a secret");
  }
}

Deno.test("capturing and injecting restores the same head, without a secret in between", () =>
  withBroker((broker, secrets) => {
    const random = new Random(20260701);
    for (let round = 0; round < ROUNDS; round++) {
      const [provider, host, name] = random.pick(OWNED);
      const secret = secrets.get(provider)!;
      const sent: Header[] = [
        [":path", `/v${random.below(9)}/x?n=${random.next()}`],
        ["x-noise", Buffer.from(random.bytes(random.below(40))).toString("latin1")],
        [name, formatHeader(random, name, host, secret)],
        ["user-agent", "client/1.0"],
      ];
      const captured = broker.capture(host, sent);
      assertClean(captured, secrets.values());
      const injected = broker.inject({ scheme: "https", host, port: 443 }, captured.headers);
      assertEquals(injected.headers, sent);
      assertClean(injected.substitutions, secrets.values());

      const elsewhere = random.pick(["evil.example.com", `${host}.evil.example`, "169.254.169.254"]);
      const refs = broker.capture(elsewhere, sent).headers;
      const { message, hint, code, substitutions, stack } = assertThrows(
        () => broker.inject({ scheme: "https", host: elsewhere, port: 443 }, refs),
        CredentialDenied,
      );
      assertClean({ message, hint, code, substitutions, stack }, secrets.values());
    }
  }));

Deno.test("scrubbed text and bodies contain no secret, wherever they are cut", () =>
  withBroker((broker, secrets) => {
    const random = new Random(20260702);
    const all = [...secrets.values()];
    for (let round = 0; round < ROUNDS; round++) {
      const parts = Array.from({ length: 1 + random.below(6) }, () => {
        const secret = random.pick(all);
        const noise = Buffer.from(random.bytes(random.below(30))).toString("latin1");
        const form = random.pick([
          secret,
          btoa("x".repeat(random.below(4)) + secret + "y"),
          JSON.stringify({ k: secret }),
          secret.slice(0, random.below(secret.length)),
          "sk-ant-",
          "credential:blake3:",
          refOf("github", secret),
        ]);
        return noise + " " + form + random.pick([" ", "\n", ".", "\0"]);
      });
      const text = parts.join("");
      assertClean(broker.scrub(text), all);
      const filter = broker.bodies({
        scheme: "https",
        host: "api.anthropic.com",
        port: 443,
        direction: "request",
        path: "/v1/messages",
      })!;
      const bytes = Buffer.from(text, "latin1");
      const out: Uint8Array[] = [];
      for (let at = 0; at < bytes.length;) {
        out.push(filter.push(bytes.subarray(at, at += 1 + random.below(50))));
      }
      out.push(filter.end());
      const body = Buffer.concat(out).toString("latin1");
      assertClean(body, all);
      assert(!/credential:blake3:[0-9a-f]{64}/.test(body), "an unresolved ref was sent");
      assertClean(filter.substitutions, all);
    }
  }));

Deno.test("random cuts do not change the output of a stream", () => {
  const random = new Random(20260703);
  const alphabet = "ab-_ :%3AsktigcredntalAIz_ant0123456789\n";
  for (let round = 0; round < 4000; round++) {
    const word = (length: number) => Array.from({ length }, () => random.pick([...alphabet])).join("");
    const secrets = Array.from({ length: random.below(4) }, () => {
      const secret = word(12 + random.below(12)).replaceAll(/\s/g, "x");
      return [refOf("mcp", secret), secret] as [string, string];
    });
    const finder = new Finder(secrets);
    const text = Array.from(
      { length: random.below(12) },
      () =>
        random.pick([
          word(random.below(20)),
          ...secrets.flatMap(([ref, secret]) => [secret, ref, secret.slice(0, 5), secret + secret.slice(3)]),
          "sk-ant-" + word(random.below(30)),
          "ghp_" + "a".repeat(random.below(40)),
        ]),
    ).join("");
    const run = (cuts: number[]) => {
      const replacer = new StreamReplacer(() => finder, ({ kind }) => `<${kind}>`);
      const bytes = Buffer.from(text, "latin1");
      const edges = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
      const out = edges.slice(1).map((edge, at) => replacer.push(bytes.slice(edges[at], edge)));
      return Buffer.concat([...out, replacer.end()]).toString("latin1");
    };
    const whole = run([]);
    const cuts = Array.from({ length: random.below(text.length + 1) }, () => random.below(text.length + 1));
    assertEquals(run(cuts), whole, JSON.stringify({ text, cuts, secrets }));
  }
});

Deno.test("damaged store files give credential.store_corrupt and never crash", () => {
  const random = new Random(20260704);
  const good = JSON.stringify({
    version: 1,
    key: { in: "file", id: "0".repeat(16) },
    entries: [{
      ref: refOf("github", "some-secret-1"),
      provider: "github",
      created_at: "2026-01-01T00:00:00Z",
      source: "added",
      sealed: "AAAA",
    }],
  });
  parseStore(good, "store");
  for (let round = 0; round < 5000; round++) {
    const bytes = new TextEncoder().encode(good);
    for (let damage = 0; damage <= random.below(3); damage++) {
      bytes[random.below(bytes.length)] = random.below(128);
    }
    try {
      parseStore(
        new TextDecoder().decode(
          bytes.subarray(0, random.below(10) ? bytes.length : random.below(bytes.length)),
        ),
        "store",
      );
    } catch (error) {
      assert(error instanceof SbxError && error.code === "credential.store_corrupt", `${error}`);
    }
  }
});
