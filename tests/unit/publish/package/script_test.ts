/** Scripts that dpkg runs as root. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { POSTINST, POSTRM } from "../../../../lib/publish/package/script.ts";
import { runChild } from "../../../helper/child.ts";

Deno.test("a folder that a user keeps from removal does not keep the package", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const uid = Deno.uid()!;
    const own = join(dir, `sbx-${uid}`), others = join(dir, `sbx-${uid + 1}`), link = join(dir, "sbx-0123");
    for (const each of [own, others]) await Deno.mkdir(each);
    await Deno.symlink(others, link);
    // rm as it answers for a mount of the user's: root may not enter it.
    const script = POSTRM.replaceAll("/tmp/sbx-", `${dir}/sbx-`).replaceAll("/var/lib/sbx", join(dir, "var"));
    const busy = `rm() { /bin/rm "$@"; case "$*" in *${own}) return 1 ;; esac; }\n`;
    // No tool of this machine's packages is run.
    const tools = "command() { return 1; }\n";
    const { success } = await runChild("sh", { args: ["-c", tools + busy + script, "postrm", "purge"] });
    assertEquals(success, true);
    const left = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
    assertEquals(left.sort(), ["sbx-0123", `sbx-${uid + 1}`].sort());
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("the installer leaves the assets to a company's package that is not configured yet", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const run = async (owner: string, state: string) => {
      // dpkg's answers: the owner of the manifest's address, and its state.
      const answer =
        `#!/bin/sh\ncase $1 in -S) [ -z "${owner}" ] || echo "${owner}: $2" ;; *) echo "${state}" ;; esac\n`;
      await Deno.writeTextFile(join(dir, "dpkg-query"), answer, { mode: 0o755 });
      const script = POSTINST.replaceAll("/usr/lib/sbx/update-assets ||", "echo fetched ||")
        .replaceAll("/run/systemd/system", join(dir, "none"));
      const args = ["-c", `command() { return 1; }\n${script}`, "postinst", "configure"];
      const env = { PATH: `${dir}:${Deno.env.get("PATH")}` };
      const { success, stdout } = await runChild("sh", { args, env });
      assertEquals(success, true);
      return new TextDecoder().decode(stdout).trim();
    };
    assertEquals(await run("", ""), "fetched");
    assertEquals(await run("sbx-example", "installed"), "fetched");
    assertEquals(await run("sbx-example", "unpacked"), "");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
