/**
 * Java's stores of certificates, read by openssl and by the formats' own rules.
 * `make test-docker` asks a JDK.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { trust, trustInJava } from "../../../../cmd/guest/pty_agent/boot.ts";
import { storeOf, storePaths, withTrusted } from "../../../../lib/machine/guest/java/mod.ts";
import { JAVA_STORES } from "../../../helper/java.ts";

const { ca } = JAVA_STORES;
const store = (name: "jks" | "pkcs12" | "encrypted" | "own") => Uint8Array.fromBase64(JAVA_STORES[name]);
const base64 = (pem: string) => pem.replaceAll(/-----[A-Z ]+-----|\s/g, "");

Deno.test("a JKS gets the certificate behind its own, under the digest of the usual password, once", async () => {
  const before = store("jks");
  const after = (await withTrusted(before, ca))!;
  const der = Uint8Array.fromBase64(base64(ca));
  const view = new DataView(after.buffer);
  assertEquals([view.getUint32(0), view.getUint32(4), view.getUint32(8)], [0xfeedfeed, 2, 2]);
  assertEquals(after.subarray(12, before.length - 20), before.subarray(12, -20));
  assertEquals(after.subarray(-20 - der.length, -20), der);
  const password = new TextEncoder().encode([..."changeit"].map((letter) => `\0${letter}`).join(""));
  const digest = createHash("sha1").update(password).update("Mighty Aphrodite").update(
    after.subarray(0, -20),
  );
  assertEquals(after.subarray(-20).toHex(), digest.digest("hex"));
  assertEquals(await withTrusted(after, ca), undefined);
});

Deno.test("a new store has each certificate of a bundle, under a name of its own", async () => {
  const made = await storeOf(`# a comment\n${ca}\n${ca}`);
  const der = Uint8Array.fromBase64(base64(ca)).toHex();
  assertEquals(new DataView(made.buffer).getUint32(8), 2);
  assertEquals(made.toHex().split(der).length, 3);
  assertEquals(new TextDecoder("latin1").decode(made).match(/sbx-\d/g), ["sbx-0", "sbx-1"]);
  // A store whose digest is wrong would stay as it is.
  assert(await withTrusted(await storeOf(""), ca));
});

Deno.test("a PKCS#12 without a password gets it too, with Java's mark of trust", async () => {
  const after = (await withTrusted(store("pkcs12"), ca))!;
  const path = await Deno.makeTempFile();
  await Deno.writeFile(path, after);
  const args = ["pkcs12", "-in", path, "-nokeys", "-nomacver", "-passin", "pass:"];
  const { code, stdout, stderr } = await new Deno.Command("openssl", { args }).output();
  await Deno.remove(path);
  const text = new TextDecoder().decode(stdout);
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  assertEquals(text.match(/BEGIN CERTIFICATE/g)?.length, 2);
  assertStringIncludes(text.replaceAll(/\s/g, ""), base64(ca));
  // The first entry is keytool's.
  assertEquals(text.match(/2\.16\.840\.1\.113894\.746875\.1\.1: /g)?.length, 2, text);
  assertStringIncludes(text, "friendlyName: sbx");
  assertEquals(await withTrusted(after, ca), undefined);
});

Deno.test("lengths have their one form in a PKCS#12 of every size: Java reads no store with a longer one", async () => {
  let digits = 0;
  for (const size of [100, 70_000]) {
    const filler = `-----BEGIN CERTIFICATE-----${btoa("x".repeat(size))}-----END CERTIFICATE-----`;
    const filled = (await withTrusted(store("pkcs12"), filler))!;
    const after = (await withTrusted(filled, ca))!;
    // Down through the outer elements, each of which holds nearly all.
    for (let at = 0; after[at] === 0x30;) {
      const count = after[at + 1] - 0x80;
      digits = Math.max(digits, count);
      assert(after[at + 2] !== 0, `a length of ${size} begins with a zero`);
      const [type] = after.subarray(at + 2 + count);
      // The version, or the type of the content, before the next one.
      at += 2 + count;
      if (type === 0x02) at += 3;
    }
  }
  assertEquals(digits, 3);
});

Deno.test("a store with a password of its own, a damaged one and another file stay as they are", async () => {
  const [jks, pkcs12] = [store("jks"), store("pkcs12")];
  const damaged = Uint8Array.from(jks);
  damaged[100] ^= 1;
  const others = [
    store("own"),
    store("encrypted"),
    damaged,
    new Uint8Array(),
    new Uint8Array(64),
    new Uint8Array([0x30]),
  ];
  for (let cut = 1; cut < pkcs12.length; cut += 7) others.push(pkcs12.subarray(0, cut));
  for (let cut = 1; cut < jks.length; cut += 7) others.push(jks.subarray(0, cut));
  for (const bytes of others) assertEquals(await withTrusted(bytes, ca), undefined, `${bytes.length}`);
  assertEquals(await withTrusted(jks, "no certificate"), undefined);
});

Deno.test("stores are searched where distributions, images and people have JDKs", () => {
  const folders: Record<string, string[]> = {
    "/usr/lib/jvm": ["java-17"],
    "/opt": ["java"],
    "/opt/java": ["openjdk"],
  };
  const paths = storePaths((folder) => folders[folder] ?? [], "/srv/jdk/");
  for (
    const expected of [
      "/etc/ssl/certs/java/cacerts",
      "/usr/lib/jvm/java-17/lib/security/cacerts",
      "/usr/lib/jvm/java-17/jre/lib/security/cacerts",
      "/opt/java/openjdk/lib/security/cacerts",
      "/srv/jdk/lib/security/cacerts",
    ]
  ) assert(paths.includes(expected), expected);
});

Deno.test("a guest's JDKs get the host's certificate at each boot, and Debian's package finds it", async () => {
  const root = await Deno.makeTempDir();
  const [shared, own] = ["etc/ssl/certs/java", "opt/jdk/lib/security"].map((path) => join(root, path));
  for (const folder of [shared, own]) await Deno.mkdir(folder, { recursive: true });
  await Deno.writeFile(join(shared, "cacerts"), store("jks"));
  await Deno.chmod(join(shared, "cacerts"), 0o640);
  // A pipe would be waited for.
  await new Deno.Command("mkfifo", { args: [join(own, "cacerts")] }).output();
  await trust(ca, root);
  await trustInJava(ca, root);
  const trusted = await withTrusted(await Deno.readFile(join(shared, "cacerts")), ca);
  assertEquals(trusted, undefined);
  assertEquals((await Deno.stat(join(shared, "cacerts"))).mode! & 0o777, 0o640);
  assertEquals([...Deno.readDirSync(shared)].length, 1);
  const source = "/usr/local/share/ca-certificates/sbx.crt";
  assertEquals(await Deno.readLink(join(root, "etc/ssl/certs/sbx.pem")), source);
  await Deno.remove(join(own, "cacerts"));
  await Deno.writeFile(join(own, "cacerts"), store("pkcs12"));
  await trust(ca, root);
  await trustInJava(ca, root);
  assertEquals(await withTrusted(await Deno.readFile(join(own, "cacerts")), ca), undefined);
  await Deno.remove(root, { recursive: true });
});

Deno.test("a store that fails stops no other, and each keeps its owner", async () => {
  const root = await Deno.makeTempDir();
  const [failing, own] = ["etc/ssl/certs/java", "opt/jdk/lib/security"].map((path) => join(root, path));
  for (const folder of [failing, own]) await Deno.mkdir(folder, { recursive: true });
  // A file that no one can read at its beginning.
  await Deno.symlink("/proc/self/mem", join(failing, "cacerts"));
  const path = join(own, "cacerts");
  await Deno.writeFile(path, store("pkcs12"));
  const isRoot = Deno.uid() === 0;
  if (isRoot) await Deno.chown(path, 1234, 1235);
  await assertRejects(() => trustInJava(ca, root));
  assertEquals(await withTrusted(await Deno.readFile(path), ca), undefined);
  const { uid, gid } = await Deno.stat(path);
  assertEquals([uid, gid], isRoot ? [1234, 1235] : [Deno.uid(), Deno.gid()]);
  await Deno.remove(root, { recursive: true });
});
