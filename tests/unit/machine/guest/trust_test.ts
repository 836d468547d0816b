import { assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
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

Deno.test("every bundle of an image gets the certificate once, whatever its layout", async () => {
  const root = await Deno.makeTempDir();
  const [debian, fedora, alpine, suse] = [
    "etc/ssl/certs/ca-certificates.crt",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/ssl/cert.pem",
    "etc/ssl/ca-bundle.pem",
  ].map((path) => join(root, path));
  await Deno.mkdir(join(root, "etc/pki/tls/certs"), { recursive: true });
  await Deno.mkdir(join(root, "etc/ssl"));
  await Deno.writeTextFile(fedora, pem("fedora"));
  await Deno.symlink(fedora, alpine);
  await Deno.symlink("nowhere", suse);
  for (const name of ["one", "two"]) {
    await trust(pem(name), root);
    assertEquals(await Deno.readTextFile(fedora), pem("fedora") + pem(name));
    // The image had none: it has the layer's, of which there is none here.
    assertEquals(await Deno.readTextFile(debian), pem(name));
  }
  await Deno.remove(root, { recursive: true });
});

Deno.test("a root file system may have anything in place of its certificates", async () => {
  const root = await Deno.makeTempDir();
  const at = async (path: string) => {
    await Deno.mkdir(dirname(join(root, path)), { recursive: true });
    return join(root, path);
  };
  // A pipe would be waited for.
  for (const path of ["etc/ssl/cert.pem", "usr/local/share/ca-certificates/sbx.crt"]) {
    await new Deno.Command("mkfifo", { args: [await at(path)] }).output();
  }
  await Deno.mkdir(await at("etc/pki/tls/certs/ca-bundle.crt"), { recursive: true });
  await Deno.symlink("ca-bundle.pem", await at("etc/ssl/ca-bundle.pem"));
  for (const put of [(path: string) => Deno.symlink("nowhere", path), (path: string) => Deno.mkdir(path)]) {
    const bundle = await at("etc/ssl/certs/ca-certificates.crt");
    await put(bundle);
    await trust(pem("one"), root);
    assertEquals(await Deno.readTextFile(bundle), pem("one"));
    assertEquals(await Deno.readTextFile(join(root, "usr/local/share/ca-certificates/sbx.crt")), pem("one"));
    await Promise.all(
      [bundle, join(root, "usr/local/share/ca-certificates/sbx.crt")].map((path) => Deno.remove(path)),
    );
  }
  await Deno.remove(root, { recursive: true });
});
