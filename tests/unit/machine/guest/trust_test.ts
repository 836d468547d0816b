import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { trust } from "../../../../cmd/guest/pty_agent/boot.ts";

const pem = (name: string) => `-----BEGIN CERTIFICATE-----\n${name}\n-----END CERTIFICATE-----\n`;

Deno.test("a guest trusts the host's certificate once, and a later one in its place", async () => {
  const root = await Deno.makeTempDir();
  const bundle = join(root, "etc/ssl/certs/ca-certificates.crt");
  const source = join(root, "usr/local/share/ca-certificates/sbx.crt");
  await Deno.mkdir(join(root, "etc/ssl/certs"), { recursive: true });
  await Deno.writeTextFile(bundle, pem("debian"));
  for (const [name, expected] of [["one", "one"], ["one", "one"], ["two", "two"], ["two", "two"]]) {
    await trust(pem(name), root);
    assertEquals(await Deno.readTextFile(bundle), pem("debian") + pem(expected));
    assertEquals(await Deno.readTextFile(source), pem(expected));
  }
  await Deno.remove(root, { recursive: true });
});
