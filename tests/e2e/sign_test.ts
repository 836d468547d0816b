/** git in a VM signs with a key of the host, and verifies there and on the host. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { Sbx } from "../helper/sbx.ts";
import { makeKey, program } from "../helper/signing.ts";

const RULES = `
[profiles.rules.mine]
action = "allow"
match = 'sign.request.kind == "commit" && sign.request.own'

[profiles.rules.no-tags]
action = "block"
match = 'sign.request.kind == "tag"'
reason = "releases are tagged elsewhere"
`;

Deno.test("a VM signs commits with a key that it does not have", async () => {
  const folder = await Deno.makeTempDir();
  const sbx = await Sbx.make({ spare: false });
  try {
    const key = await makeKey(folder);
    await sbx.ok("start");
    await sbx.ok("profile", "copy", "code", "signs");
    const profile = join(sbx.home, "profiles/signs/profile.toml");
    const text = await Deno.readTextFile(profile);
    const granted = text.replace(/^providers = \[/m, 'providers = ["signing", ');
    assert(granted !== text);
    await Deno.writeTextFile(profile, granted + RULES);
    await sbx.ok("create", "dev", "--profile", "signs");
    // The VM runs already: it signs, and verifies, from now on.
    await sbx.ok("credentials", "add", "signing", "--key", key);
    const sh = (line: string) => sbx.cli("exec", "dev", "--timeout", "120", "-c", line);
    const who = "git config user.name Ann && git config user.email ann@example.com";
    const made = await sh(
      `cd /workspace && git init -q . && ${who} && git commit --allow-empty -q -m 'In the VM'`,
    );
    assertEquals(made.code, 0, made.stderr);
    const inVm = await sh("cd /workspace && git verify-commit HEAD");
    assertStringIncludes(inVm.stderr, 'Good "git" signature for ann@example.com');
    const tag = await sh("cd /workspace && git tag -m x v1");
    assertStringIncludes(tag.stderr, "releases are tagged elsewhere");
    assertStringIncludes(tag.stderr, "git commit --no-gpg-sign");
    // The commit itself, verified by the host's git.
    const raw = (await sh("cd /workspace && git cat-file commit HEAD")).stdout;
    await program(["git", "init", "-q", folder]);
    const git = (args: string[], input?: string) => program(["git", "-C", folder, ...args], { input });
    const id = (await git(["hash-object", "-t", "commit", "-w", "--stdin"], raw)).text.trim();
    const signers = join(folder, "allowed_signers");
    await Deno.writeTextFile(signers, `ann@example.com ${await Deno.readTextFile(`${key}.pub`)}`);
    const onHost = await git(["-c", `gpg.ssh.allowedSignersFile=${signers}`, "verify-commit", id]);
    assertStringIncludes(onHost.errors, 'Good "git" signature for ann@example.com');
    const { events } = JSON.parse(await sbx.ok("events", "dev", "--family", "sign", "--json"));
    assertEquals(events.map(({ decision }: { decision: string }) => decision), ["allow", "block"]);
  } finally {
    await sbx.dispose();
    await Deno.remove(folder, { recursive: true });
  }
});
