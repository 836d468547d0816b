/** A VM gets another image below its own changes, and goes back. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { readStatements } from "../../lib/ledger/read/mod.ts";
import { resolveAssets } from "../../lib/release/asset/mod.ts";
import { sessionPaths, type SessionStatement } from "../../lib/session/mod.ts";
import { succeed, writeImage } from "../helper/oci.ts";
import { Sbx } from "../helper/sbx.ts";
import type { TarFile } from "../helper/tar.ts";

const APPLETS = ["sh", "cat", "ls", "rm", "mkdir", "stat", "cp", "seq", "mv"];
/**
 * Files of each image, of other numbers in the file system: an overlay that found them
 * again by number would mix them up.
 */
const NUMBERED = 60;

function filesOf(version: string, busybox: Uint8Array, others: TarFile[]): TarFile[] {
  return [
    ...others,
    { name: "bin/busybox", content: busybox, mode: 0o755 },
    ...APPLETS.map((name): TarFile => ({ name: `bin/${name}`, type: "2", link: "busybox" })),
    { name: "version", content: version },
    ...Array.from({ length: NUMBERED }, (_, at): TarFile => ({
      name: `n/${at}`,
      content: `${version} ${at}\n`,
    })),
    { name: "same", content: "same\n" },
    { name: "etc/unchanged", content: `${version}\n` },
    { name: "etc/only-vm", content: "once\n" },
    { name: "var/lib/dpkg/status", content: `Package: base\nVersion: ${version}\n` },
    { name: "opt/d/inner", content: version },
    { name: "gone", content: version },
    { name: "gone-same", content: "same\n" },
  ];
}

Deno.test("a stopped VM gets another image below its changes, lists what both changed, and goes back", async (t) => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-image-change-" });
  const sbx = await Sbx.make({ spare: false, env: { SBX_CORP_CONFIG: join(dir, "corp.toml") } });
  await Deno.writeTextFile(join(dir, "corp.toml"), 'refresh_policy = "24h"\n');
  const [v1, v2] = ["v1", "v2"].map((name) => `oci:${join(dir, name)}:v1`);
  const sh = (line: string) => sbx.ok("exec", "dev", "--", "/bin/sh", "-c", line);
  const numbers = `for n in $(seq 0 ${NUMBERED - 1}); do cat /n/$n; done`;
  const expected = (version: string) =>
    Array.from({ length: NUMBERED }, (_, at) => at % 2 ? `${version} ${at}\n` : `v1 ${at}\nown ${at}\n`).join(
      "",
    );
  try {
    const { layer } = await resolveAssets(home({ get: (name) => sbx.env[name] }), currentArch());
    await succeed("fsck.erofs", `--extract=${join(dir, "layer")}`, layer!.path);
    const busybox = await Deno.readFile(join(dir, "layer/bin/busybox"));
    const architecture = currentArch() === "arm64" ? "arm64" : "amd64";
    const first = filesOf("v1", busybox, [{ name: "etc/dropped", content: "v1\n" }]);
    // In another order, and with more before them.
    const second = filesOf("v2", busybox, [
      ...Array.from({ length: 7 }, (_, at): TarFile => ({ name: `a/${at}`, content: `a ${at}\n` })),
      { name: "etc/brought", content: "v2\n" },
      { name: "etc/two words", content: "v2\n" },
    ]);
    await writeImage(join(dir, "v1"), {
      layers: [first],
      architecture,
      config: { Env: ["V=1", "PATH=/bin"] },
    });
    await writeImage(join(dir, "v2"), {
      layers: [second],
      architecture,
      config: { Env: ["V=2", "PATH=/bin"] },
    });
    await sbx.ok("create", "dev", "--image", v1);

    await t.step("a VM that runs, and an image that corp does not allow, are refused", async () => {
      await sh(
        `for n in $(seq 0 2 ${NUMBERED - 1}); do echo own $n >>/n/$n; done
         rm /gone /gone-same; echo vm >>/etc/only-vm; echo vm >/etc/dropped; echo vm >/etc/brought; echo vm >"/etc/two words"
         echo 'Package: vm' >>/var/lib/dpkg/status; rm -r /opt/d; mkdir /opt/d; echo vm >/opt/d/own; mkdir /mine; echo vm >/mine/file`,
      );
      const running = await sbx.cli("set", "dev", "--image", v2);
      assertEquals(running.code !== 0, true);
      assertStringIncludes(running.stderr, "sbx stop dev");
      await sbx.ok("stop", "dev");
      const none = await sbx.cli("set", "dev", "--undo-image");
      assertStringIncludes(none.stderr, "has had no other image");
      await Deno.writeTextFile(
        join(dir, "corp.toml"),
        'refresh_policy = "24h"\n[corp.limits]\nimages = ["registry.example.com"]\n',
      );
      assertStringIncludes(
        (await sbx.cli("set", "dev", "--image", v2)).stderr,
        "corp does not allow the image",
      );
      await Deno.writeTextFile(join(dir, "corp.toml"), 'refresh_policy = "24h"\n');
    });

    await t.step("the new image is below the VM's changes, and no file is another one", async () => {
      assertStringIncludes(await sbx.ok("set", "dev", "--image", v2), v2);
      const { image, image_reference } = JSON.parse(await sbx.ok("info", "dev", "--json"));
      assertEquals([image.reference, image.before.reference, image_reference], [v2, v1, v2]);
      assertStringIncludes(await sbx.ok("list"), v2);
      assertEquals(JSON.parse(await sbx.ok("image", "gc", "--json")).environments, []);
      assertStringIncludes((await sbx.cli("image", "remove", v1)).stderr, "go back to it");
      const started = await sbx.cli("start", "dev");
      assertEquals(started.code, 0, started.stderr);
      assertStringIncludes(started.stderr, "  /var/lib/dpkg/status: changed by both, a list of packages");
      assertMatch(await sbx.ok("info", "dev"), /cold: its image was changed/);
      // Twice: the first reading fills the kernel's caches.
      for (const _ of [1, 2]) assertEquals(await sh(numbers), expected("v2"));
      assertEquals(
        await sh(
          "cat /version /etc/unchanged /etc/only-vm /etc/brought /mine/file /same; echo $V; ls /opt/d; ls /gone 2>&1 || true",
        ),
        "v2v2\nonce\nvm\nvm\nvm\nsame\n2\nown\nls: /gone: No such file or directory\n",
      );
    });

    await t.step("the files that both changed are listed, package lists first", async () => {
      const { image, before, files, total } = JSON.parse(await sbx.ok("image", "conflicts", "dev", "--json"));
      assertEquals([image, before, total, files.length], [v2, v1, files.length, files.length]);
      const kinds = files.map(({ path, kind }: Record<string, string>) => `${kind} ${path}`);
      assertEquals(kinds.filter((line: string) => !line.includes(" /n/")), [
        "changed /var/lib/dpkg/status",
        "added /etc/brought",
        "removed /etc/dropped",
        "added /etc/two words",
        "deleted /gone",
        "replaced /opt/d",
      ]);
      assertEquals(kinds.filter((line: string) => line.includes(" /n/")).length, NUMBERED / 2);
      assertEquals(await sbx.ok("exec", "dev", "--", "/bin/sh", "-c", "cat /proc/1/root/lower/gone"), "v2");
    });

    await t.step("the VM goes back, and forward again", async () => {
      await sbx.ok("stop", "dev");
      await sbx.ok("set", "dev", "--undo-image");
      await sbx.ok("start", "dev");
      assertEquals(await sh(`cat /version /etc/only-vm; ${numbers}`), `v1once\nvm\n${expected("v1")}`);
      await sbx.ok("stop", "dev");
      await sbx.ok("start", "dev");
      // Compared already: it needs no other start than any VM.
      assert(!(await sbx.ok("info", "dev")).includes("its image was changed"));
      await sbx.ok("stop", "dev");
      await sbx.ok("set", "dev", "--undo-image");
      const copy = JSON.parse(await sbx.ok("create", "copy", "--from", "dev", "--json"));
      assertEquals(copy.image_reference, v2);
    });

    await t.step("the record has each change, and the image of each boot", async () => {
      const { id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
      const { ledger } = sessionPaths(home({ get: (name) => sbx.env[name] }), id);
      const statements = await readStatements<SessionStatement>(ledger, Number.MAX_SAFE_INTEGER);
      const images = statements.filter((each) => each.kind === "image").map(({ image, before }) => [
        before?.reference,
        image?.reference,
      ]);
      assertEquals(images, [[v1, v2], [v2, v1], [v1, v2]]);
      const boots = statements.filter((each) => each.kind === "boot").map(({ image }) => image.reference);
      assertEquals(boots, [v1, v2, v1, v1]);
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
