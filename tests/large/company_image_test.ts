/** An image of everything that a company has of its own, from sources on loopback: docs/guides/images.md. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { CompanySources, WHEEL } from "../helper/company_sources.ts";
import { fromRoot } from "../helper/repo.ts";

/** Time limit of a build, which makes two Debians, in `ms`. */
const BUILD_MS = 1_800_000;

Deno.test("an image has a company's packages, programs, files and certificates, and says so", async () => {
  await using company = await CompanySources.make();
  const home = await Deno.makeTempDir();
  try {
    const [local, remote] = [await company.deb("corp-local"), await company.deb("corp-remote", "2.1")];
    const key = await company.aptRepository("apt", remote);
    const wheel = await Deno.readFile(join(company.dir, "www/simple/corp-greet", WHEEL));
    const hash = createHash("sha256").update(wheel).digest("hex");
    const { stdout: pem } = await runChild("openssl", {
      args: [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=corp",
        "-keyout",
        "/dev/null",
      ],
    });
    const script =
      `#!/bin/sh\nset -eu\nmkdir /opt/corp\n{ corp-local; corp-remote; corp-greet; corp-hello; tool; } >/opt/corp/made\n`;
    const profile = `id = "corp"
name = "Corp"
description = ""
revision = "1.0.0"
[packages]
apt = ["corp-remote"]
deb = [${await company.pin("debs/corp-local.deb", await Deno.readFile(local))}]
certificates = [${await company.pin("ca.pem", pem)}]
files = [{ ${(await company.pin("corp.conf", "a\n")).slice(2, -2)}, to = "/etc/corp.conf", mode = "0600" }]
script = ${await company.pin("setup.sh", script)}
[[packages.apt_source]]
uri = "${company.url}/apt"
suite = "stable"
components = ["main"]
signed_by = ${await company.pin("corp.asc", key)}
[packages.pip]
lock = ${await company.pin("requirements.txt", `corp-greet==1.2.0 --hash=sha256:${hash}\n`)}
index = "${company.url}/simple"
[packages.cargo]
install = ["corp-hello@0.3.0"]
registry = "sparse+${company.url}/crates/"
[packages.go]
install = ["corp.example/tool@v1.4.0"]
proxy = "${company.url}/go"
lock = ${await company.pin("go.sum", company.goSum)}
`;
    await Deno.writeTextFile(join(company.dir, "profile/profile.toml"), profile);
    await Deno.mkdir(join(home, "profiles"));
    await runChild("cp", { args: ["-rT", join(company.dir, "profile"), join(home, "profiles/corp")] });
    const { code, stderr } = await runChild(fromRoot("bin/sbx-admin"), {
      args: ["image", "build", "--profile", "corp", join(home, "out")],
      env: { SBX_HOME: home },
    }, BUILD_MS);
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    const tree = join(home, "tree");
    await runChild("fsck.erofs", { args: [`--extract=${tree}`, join(home, "out/x86_64/rootfs.erofs")] });
    assertEquals(
      await Deno.readTextFile(join(tree, "opt/corp/made")),
      "corp-local 1.0\ncorp-remote 2.1\ngreetings from the company\n" +
        "hello from the company, built with devices 1 root false\ntool of the company\n",
    );
    assertEquals((await Deno.stat(join(tree, "etc/corp.conf"))).mode! & 0o777, 0o600);
    const trusted = await Deno.readTextFile(join(tree, "etc/ssl/certs/ca-certificates.crt"));
    assertStringIncludes(trusted, new TextDecoder().decode(pem).trim());
    assertEquals(await Deno.stat(join(tree, "usr/bin/rustc")).catch(() => "none"), "none");
    const { assets } = JSON.parse(await Deno.readTextFile(join(home, "out/manifest.json")));
    const { lock } = assets.releases[assets.current].image;
    assertEquals(Object.keys(lock), [
      "deb:corp-local@1.0",
      "pip:corp-greet@1.2.0",
      "cargo:corp-hello@0.3.0",
      "go:corp.example/tool@v1.4.0",
    ]);
    const obom = await Deno.readTextFile(join(home, "out/x86_64/obom.cdx.json"));
    for (
      const purl of [
        "pkg:pypi/corp-greet@1.2.0",
        "pkg:cargo/corp-hello@0.3.0",
        "pkg:golang/corp.example/tool@v1.4.0",
      ]
    ) {
      assertStringIncludes(obom, `"${purl}"`);
    }
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
