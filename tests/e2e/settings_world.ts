/** Files of the settings test: a corp.toml, a settings.toml with secrets, and the assets of a profile. */
import { join } from "node:path";
import { blake3 } from "../../lib/base/hash/mod.ts";

export const API_KEY = "key-4b1d7c0e9f-never-in-a-guest";
export const PASSWORD = "pass-93ae51c2-never-in-a-guest";
export const BASHRC = "alias greet='echo hi'\n";
export const SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEx4 ada@example.org";

/** corp.toml, with three locked settings. */
export const CORP = `
[settings."repository.git.identity.author_name"]
value = "Corp Build"
[settings."vm.resources.cpu_count"]
value = 1
[settings."ledger.on_full"]
value = "block"
`;

/** settings.toml, written by hand. */
export const USER = `# Ada's settings
[settings."repository.git.identity.author_name"]
value = "Ada"
[settings."repository.git.identity.author_email"]
value = "ada@example.org"   # work
[settings."vm.environment.shell.bashrc"]
value = { path = "/root/.bashrc", content = ${JSON.stringify(BASHRC)} }
[settings."vm.environment.ssh.public_key"]
value = "${SSH_KEY}"
[settings."vm.resources.cpu_count"]
value = 8
[settings."telemetry.enabled"]
value = true
[settings."telemetry.api_key"]
value = "${API_KEY}"
[settings."telemetry.password"]
value = "${PASSWORD}"
`;

/** The installed assets as a profile pins them, and an OBOM of its own that a test may damage. */
export async function pinsOf(assetsDir: string, obomFile: string): Promise<string> {
  const arch = Deno.build.arch === "aarch64" ? "arm64" : "x86_64";
  const { assets } = JSON.parse(await Deno.readTextFile(join(assetsDir, "manifest.json")));
  const files = assets.releases[assets.current].arches[arch];
  const installed = await Deno.readTextFile(
    join(assetsDir, `obom.cdx-${files["obom.cdx.json"].hash.slice(0, 16)}.json`),
  );
  await Deno.writeTextFile(obomFile, installed + "\n");
  const own = { hash: blake3(installed + "\n"), size: (await Deno.stat(obomFile)).size };
  const table = (head: string, name: string, url: string, { hash, size } = files[name]) =>
    `[${head}]\nname = "${name}"\nurl = "${url}"\nhash = "blake3:${hash}"\nsize = ${size}\n`;
  const parts = { kernel: "vmlinuz", initrd: "initrd.img", rootfs: "rootfs.erofs", layer: "layer.erofs" };
  const boot = Object.entries(parts).map(([part, name]) =>
    table(`assets.arch.${arch}.${part}`, name, `https://example.org/${name}`)
  );
  const obom = table(`obom.arch.${arch}`, "obom.cdx.json", `file://${obomFile}`, own) +
    `generator = "test"\ngenerator_version = "1"\nrootfs_hash = "blake3:${files["rootfs.erofs"].hash}"\n`;
  return boot.join("") + obom;
}
