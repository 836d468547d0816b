/** The configuration of SSH clients for VMs. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { installSshConfig, sshConfig, sshKey } from "../../../cmd/sbx/vm/ssh-config.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runChild } from "../../helper/child.ts";

const KEY = { identity: "/home/a b/ssh/id_ed25519", publicKey: "ssh-ed25519 AAAA" };

async function inFolder(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("ssh itself reads of the configuration what was meant, whatever is in the paths", () =>
  inFolder(async (dir) => {
    const config = join(dir, "config");
    const [sbx, home] = ["/opt/it's $(touch x) 100%h/sbx", "/home/a b%d"];
    await Deno.writeTextFile(config, sshConfig(["dev", "web-1"], { sbx, home, ...KEY }));
    const { stdout } = await runChild("ssh", { args: ["-G", "-F", config, "web-1.sbx"] });
    const options = new Map(
      new TextDecoder().decode(stdout).split("\n").map((line) => {
        const [name, ...value] = line.split(" ");
        return [name, value.join(" ")];
      }),
    );
    assertEquals(options.get("user"), "root");
    assertEquals(options.get("identityfile"), KEY.identity);
    assertEquals(options.get("forwardagent"), "no");
    // As ssh gives it to a shell, with its own % replaced.
    const command = options.get("proxycommand")!.replaceAll("%%", "%").replace(
      "env SBX_HOME=",
      "printf '%s\\n' ",
    );
    const words = await runChild("sh", { args: ["-c", command], cwd: dir });
    assertEquals(new TextDecoder().decode(words.stdout).trimEnd().split("\n"), [
      home,
      sbx,
      "exec",
      "-i",
      "web-1",
      "--",
      "sbx-sshd",
      KEY.publicKey,
    ]);
    assertEquals(await Array.fromAsync(Deno.readDir(dir), ({ name }) => name), ["config"]);
  }));

Deno.test("an installation keeps the user's configuration, and is done once", () =>
  inFolder(async (dir) => {
    const folder = join(dir, ".ssh");
    await Deno.mkdir(folder);
    const main = join(folder, "config");
    const last =
      "# From here on made by sbx ssh-config; keep it last.\nMatch originalhost *.sbx\n  SendEnv -*\n";
    await Deno.writeTextFile(main, "Host example\n  User me\n", { mode: 0o644 });
    const wanted = `Include sbx.conf\n\nHost example\n  User me\n\n${last}`;
    for (const beside of ["# one\n", "# two\n"]) {
      const path = await installSshConfig({ beside, alone: "# alone\n" }, folder);
      assertEquals(await Deno.readTextFile(path), beside);
      assertEquals(await Deno.readTextFile(join(folder, "sbx-alone.conf")), "# alone\n");
      assertEquals(await Deno.readTextFile(main), wanted);
    }
    assertEquals((await Deno.stat(main)).mode! & 0o777, 0o644);
    // Lines that others have put before and behind.
    await Deno.writeTextFile(main, `Host *\n  SendEnv A\n${wanted}Host b\n`);
    const files = { beside: "", alone: "" };
    await installSshConfig(files, folder);
    assertEquals(
      await Deno.readTextFile(main),
      `Include sbx.conf\n\nHost *\n  SendEnv A\n\nHost example\n  User me\n\nHost b\n\n${last}`,
    );
    await Deno.writeTextFile(main, "Host example\n");
    await Deno.rename(main, join(dir, "elsewhere"));
    await Deno.symlink(join(dir, "elsewhere"), main);
    const error = await assertRejects(() => installSshConfig(files, folder), SbxError, "is a link");
    assertStringIncludes(error.hint!, "Include sbx.conf");
    assertStringIncludes(error.hint!, "SendEnv -*");
    await Deno.remove(folder, { recursive: true });
    await installSshConfig(files, folder);
    assertEquals(await Deno.readTextFile(main), `Include sbx.conf\n\n${last}`);
    assertEquals((await Deno.stat(main)).mode! & 0o777, 0o600);
  }));

Deno.test("a home has one key pair, also when two ask for it at once, and a damaged one is not used", () =>
  inFolder(async (dir) => {
    const keys = await Promise.all([sshKey({ dir }), sshKey({ dir }), sshKey({ dir })]);
    for (const key of keys) assertEquals(key, keys[0]);
    assertEquals(await sshKey({ dir }), keys[0]);
    const { stdout } = await runChild("ssh-keygen", { args: ["-y", "-f", keys[0].identity] });
    assertEquals(new TextDecoder().decode(stdout).trim().split(" ").slice(0, 2).join(" "), keys[0].publicKey);
    assertEquals((await Deno.stat(keys[0].identity)).mode! & 0o777, 0o600);
    assertEquals(
      await Array.fromAsync(Deno.readDir(join(dir, "ssh")), ({ name }) => name).then((all) => all.sort()),
      [
        "id_ed25519",
        "id_ed25519.pub",
      ],
    );
    await Deno.writeTextFile(`${keys[0].identity}.pub`, "ssh-ed25519 $(reboot)\n");
    await assertRejects(() => sshKey({ dir }), SbxError, "is not a public key");
  }));
