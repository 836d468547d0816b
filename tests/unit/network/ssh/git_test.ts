/**
 * Git over SSH through the proxy: the real ssh and git of a guest, and Debian's sshd with real repositories.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { gitOk } from "../../../helper/git.ts";
import { sshCredential, SshServer, sshWorld } from "../../../helper/sshd.ts";
import type { TestNet } from "../../../helper/net.ts";

const requestsOf = ({ gate }: TestNet) =>
  gate.entries.flatMap(({ event: { http } }) => http ? [http.request] : []);

Deno.test("git over SSH", async (t) => {
  await using server = await SshServer.start();
  const bare = join(server.dir, "repo.git");
  const work = join(server.dir, "work");
  await gitOk(server.dir, "init", "--quiet", "--bare", "--initial-branch=main", bare);
  await gitOk(bare, "config", "receive.advertisePushOptions", "true");
  await gitOk(server.dir, "clone", "--quiet", bare, work);
  const commit = async (name: string, content: string | Uint8Array) => {
    await Deno.writeFile(
      join(work, name),
      typeof content === "string" ? new TextEncoder().encode(content) : content,
    );
    await gitOk(work, "add", ".");
    await gitOk(work, "commit", "--quiet", "-m", name);
  };
  await commit("a.txt", "one\n");
  await gitOk(work, "push", "--quiet", "origin", "HEAD:main");
  const credential = await sshCredential(server);

  for (const protocol of ["0", "1", "2"]) {
    await t.step(`a clone, and what is recorded of it: protocol ${protocol}`, async () => {
      await using guest = await sshWorld(server, [credential]);
      const target = join(server.dir, `clone${protocol}`);
      const args = ["-c", `protocol.version=${protocol}`, "clone", "--quiet", guest.url(bare), target];
      const ran = await guest.git(server.dir, args);
      assertEquals([ran.code, ran.stderr], [0, ""]);
      assertEquals(await Deno.readTextFile(join(target, "a.txt")), "one\n");
      await guest.world.net.idle();
      const { entries } = guest.world.net.gate;
      const requests = requestsOf(guest.world.net);
      assertEquals(requests.map(({ method, scheme, path, query }) => [method, scheme, path, query]), [
        ["GET", "ssh", `${bare}/info/refs`, "service=git-upload-pack"],
        ["POST", "ssh", `${bare}/git-upload-pack`, ""],
      ]);
      assertEquals(requests[0].ssh?.kind, "git");
      const text = JSON.stringify(entries);
      assert(!text.includes(credential.secret.slice(0, 40)));
      const used = entries.flatMap(({ event: { credential } }) =>
        credential ? [credential.substitution] : []
      );
      assertEquals(used.map(({ outcome, location }) => [outcome, location]), [["injected", "signature"]]);
      assertEquals(entries.map(({ outcome }) => outcome?.error), entries.map(() => undefined));
    });
  }

  await t.step("a push, whose refs the record has", async () => {
    await using guest = await sshWorld(server, [credential]);
    await commit("b.txt", "two\n");
    const ran = await guest.git(work, [
      "push",
      "-o",
      "ci.skip",
      guest.url(bare),
      "HEAD:main",
      "HEAD:refs/heads/dev",
    ]);
    assertEquals(ran.code, 0, ran.stderr);
    await guest.world.net.idle();
    const [list, call] = requestsOf(guest.world.net);
    assertEquals([list.method, list.query], ["GET", "service=git-receive-pack"]);
    assertEquals([call.method, call.path], ["POST", `${bare}/git-receive-pack`]);
    assertEquals(call.git?.updates.map(({ kind, ref }) => `${kind} ${ref}`), [
      "update refs/heads/main",
      "create refs/heads/dev",
    ]);
    assertEquals(await gitOk(bare, "rev-parse", "dev"), await gitOk(work, "rev-parse", "HEAD"));
  });

  await t.step("bytes that a decision knows do not count again as sent after it", async () => {
    await using guest = await sshWorld(server, [credential]);
    const ran = await guest.git(work, ["push", "--quiet", guest.url(bare), ":refs/heads/dev"]);
    assertEquals(ran.code, 0, ran.stderr);
    await guest.world.net.idle();
    const { entries } = guest.world.net.gate;
    const call = entries.find(({ event: { http } }) => http?.request.method === "POST")!;
    // Nothing follows the command that deletes a ref.
    assert(call.event.http!.request.bytes > 0);
    assertEquals(call.outcome?.streamed_bytes, undefined);
  });

  await t.step("a refused ref: git shows the rule, and the server gets nothing", async () => {
    await using guest = await sshWorld(server, [credential], {
      rules: `[profiles.rules.main]
name = "main is protected"
action = "block"
match = 'http.request.git.updates.exists(update, update.ref == "refs/heads/main")'
`,
    });
    const before = await gitOk(bare, "rev-parse", "main");
    await commit("c.txt", "three\n");
    await commit("large.bin", crypto.getRandomValues(new Uint8Array(65_536)));
    const ran = await guest.git(work, ["push", guest.url(bare), "HEAD:main"]);
    assertEquals(ran.code, 1);
    assertStringIncludes(ran.stderr, 'remote: blocked by policy: main is protected (rule "main")');
    assertStringIncludes(ran.stderr, "! [remote rejected] HEAD -> main (blocked by policy)");
    assertEquals(await gitOk(bare, "rev-parse", "main"), before);
    const other = await guest.git(work, ["push", guest.url(bare), "HEAD:topic"]);
    assertEquals(other.code, 0, other.stderr);
    assertEquals(await gitOk(bare, "rev-parse", "topic"), await gitOk(work, "rev-parse", "HEAD"));
    await guest.world.net.idle();
  });

  await t.step("a refused repository: the host does not even log in", async () => {
    await using guest = await sshWorld(server, [credential], {
      rules: `[profiles.rules.none]
name = "no such repository"
action = "block"
match = 'http.request.path.startsWith("${bare}/")'
`,
    });
    const logins = server.log.split("Accepted publickey").length;
    const ran = await guest.git(server.dir, ["ls-remote", guest.url(bare)]);
    assertEquals(ran.code, 128);
    assertStringIncludes(ran.stderr, 'sbx: blocked by policy: no such repository (rule "none")');
    await guest.world.net.idle();
    assertEquals(server.log.split("Accepted publickey").length, logins);
  });

  await t.step("a refused fetch, after a listing that a rule allows", async () => {
    await using guest = await sshWorld(server, [credential], {
      rules: `[profiles.rules.list]
name = "refs may be listed"
action = "block"
match = 'http.request.method == "POST" && http.request.git.service == "git-upload-pack"'
`,
    });
    const listed = await guest.git(server.dir, ["-c", "protocol.version=0", "ls-remote", guest.url(bare)]);
    assertEquals(listed.code, 0, listed.stderr);
    assertStringIncludes(listed.stdout, "refs/heads/main");
    const target = join(server.dir, "refused");
    const ran = await guest.git(server.dir, ["-c", "protocol.version=0", "clone", guest.url(bare), target]);
    assertEquals(ran.code, 128);
    assertStringIncludes(ran.stderr, 'blocked by policy: refs may be listed (rule "list")');
    await guest.world.net.idle();
  });

  await t.step("a pack of many windows passes in both directions", async () => {
    await using guest = await sshWorld(server, [credential]);
    const bytes = new Uint8Array(24 * 1024 * 1024);
    for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
    await commit("huge.bin", bytes);
    const pushed = await guest.git(work, ["push", "--quiet", guest.url(bare), "HEAD:huge"]);
    assertEquals(pushed.code, 0, pushed.stderr);
    const target = join(server.dir, "huge");
    const ran = await guest.git(server.dir, [
      "clone",
      "--quiet",
      "--branch",
      "huge",
      guest.url(bare),
      target,
    ]);
    assertEquals(ran.code, 0, ran.stderr);
    assertEquals(await gitOk(target, "rev-parse", "HEAD"), await gitOk(work, "rev-parse", "HEAD"));
    await guest.world.net.idle();
    const sizes = guest.world.net.gate.entries.flatMap(({ outcome }) => {
      const response = outcome?.response as { bytes: number } | undefined;
      return response ? [response.bytes] : [];
    });
    assert(Math.max(...sizes) > bytes.length, String(sizes));
  });

  await t.step("a repository that is not there: the server's own words", async () => {
    await using guest = await sshWorld(server, [credential]);
    const ran = await guest.git(server.dir, ["ls-remote", guest.url(`${server.dir}/none.git`)]);
    assertEquals(ran.code, 128);
    assertStringIncludes(ran.stderr, "does not appear to be a git repository");
    await guest.world.net.idle();
  });
});
