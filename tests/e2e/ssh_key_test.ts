/** SSH of a VM to a server of the host: git of the guest clones and pushes with a key that it has not. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { readSshSecret } from "../../lib/credential/ssh/mod.ts";
import { gitOk } from "../helper/git.ts";
import { Sbx } from "../helper/sbx.ts";
import { SSH_USER, SshServer } from "../helper/sshd.ts";

const RULES = `
[profiles.rules.main]
name = "main is protected"
action = "block"
match = 'http.request.git.updates.exists(update, update.ref == "refs/heads/main")'
`;

Deno.test("a VM uses git over SSH, and its key stays on the host", async () => {
  await using server = await SshServer.start();
  const bare = join(server.dir, "repo.git");
  const work = join(server.dir, "work");
  await gitOk(server.dir, "init", "--quiet", "--bare", "--initial-branch=main", bare);
  await gitOk(server.dir, "clone", "--quiet", bare, work);
  await Deno.writeTextFile(join(work, "a.txt"), "one\n");
  await gitOk(work, "add", ".");
  await gitOk(work, "commit", "--quiet", "-m", "first");
  await gitOk(work, "push", "--quiet", "origin", "HEAD:main");
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    const host = `git.host.sbx:${server.port}`;
    await sbx.ok("profile", "copy", "code", "keys");
    const profile = join(sbx.home, "profiles/keys/profile.toml");
    const text = (await Deno.readTextFile(profile)).replace(/^providers = \[.*\]$/m, 'providers = ["ssh"]');
    assertStringIncludes(text, 'providers = ["ssh"]');
    await Deno.writeTextFile(profile, `${text}\n${RULES}\n[host]\nservices = ["git:${server.port}"]\n`);
    await sbx.ok("create", "dev", "--profile", "keys");
    // The VM runs already: it knows the server from now on.
    const added = await sbx.cli(
      ...["credentials", "add", "ssh", "--host", host, "--user", SSH_USER, "--key", server.userKey],
      ...["--host-key", server.hostKey],
    );
    assertEquals(added.code, 0, added.stderr);
    assertStringIncludes(added.stderr, "dev: programs that start from now on may use it");
    const run = (line: string) => sbx.cli("exec", "dev", "--timeout", "120", "-c", line);
    const url = `ssh://${SSH_USER}@${host}${bare}`;
    const cloned = await run(`git clone -q ${url} /tmp/work && cat /tmp/work/a.txt`);
    assertEquals([cloned.code, cloned.stdout], [0, "one\n"], cloned.stderr);
    const commit = "git -c user.name=Ann -c user.email=ann@example.com commit -q --allow-empty -m second";
    const pushed = await run(`cd /tmp/work && ${commit} && git push -q origin HEAD:topic`);
    assertEquals(pushed.code, 0, pushed.stderr);
    const refused = await run("cd /tmp/work && git push origin HEAD:main");
    assertEquals(refused.code, 1);
    assertStringIncludes(refused.stderr, 'remote: blocked by policy: main is protected (rule "main")');
    const head = (await run("cd /tmp/work && git rev-parse HEAD")).stdout.trim();
    assertEquals(await gitOk(bare, "rev-parse", "topic"), head);
    assertEquals(await gitOk(bare, "rev-parse", "main"), await gitOk(work, "rev-parse", "HEAD"));
    const command = await run(`ssh -p ${server.port} ${SSH_USER}@git.host.sbx id`);
    assertEquals([command.code, command.stdout], [126, ""]);
    assertStringIncludes(command.stderr, 'rule "block-ssh-command"');
    const secret = await readSshSecret(await Deno.readTextFile(server.userKey));
    const found = await run(`env; cat /etc/ssh/ssh_known_hosts; ls ~/.ssh 2>&1; true`);
    assertStringIncludes(found.stdout, `[git.host.sbx]:${server.port} ssh-ed25519 `);
    assert(!found.stdout.includes(secret.slice(20, 60)));
    const { events } = JSON.parse(await sbx.ok("events", "dev", "--family", "http", "--json"));
    const seen = events.flatMap(({ http: { request } }: { http: { request: Record<string, string> } }) =>
      request.scheme === "ssh" ? [`${request.method} ${request.path.replace(bare, "")}`] : []
    );
    assertEquals(seen.slice(0, 2), ["GET /info/refs", "POST /git-upload-pack"]);
    assertStringIncludes(await sbx.ok("credentials", "audit"), "signature");
  } finally {
    await sbx.dispose();
  }
});
