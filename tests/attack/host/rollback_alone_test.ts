/**
 * A revoked program comes back by `sudo sbx update program --rollback`, though a user of the
 * machine knows of its revocation.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { markRelease, serveTree, Workspace } from "../../../lib/publish/mod.ts";
import { checkChannel, parseIndexUrl, ReleaseMemory } from "../../../lib/release/mod.ts";
import { fetchDocument } from "../../../lib/publish/update/mod.ts";
import { runChild } from "../../helper/child.ts";
import { Follower } from "../../helper/follower.ts";
import { ReleaseWorkspace } from "../../helper/release_workspace.ts";

const script = (version: string) => `#!/bin/sh\n# ${version}\necho '{"version": "${version}"}'\n`;
/** Only root reads files of other users, and can give them files. */
const ignore = Deno.uid() !== 0;
const USER = 65534;

/**
 * A machine whose program is 1.1.0 with 1.0.0 before it, root's home without any memory, and a user's home.
 */
class Machine implements AsyncDisposable {
  private constructor(readonly follower: Follower, readonly path: string) {}

  get root() {
    return homeIn(join(this.follower.dir, "root/.sbx"));
  }

  get proof() {
    return join(this.follower.dir, "user/.sbx/release/revocations.json");
  }

  static async make(): Promise<Machine> {
    const follower = await Follower.make((workspace) => workspace.program = script);
    const machine = new Machine(follower, join(follower.dir, "bin/sbx"));
    await Deno.chmod(follower.dir, 0o755);
    for (const folder of ["bin", "root/.sbx", "user/.sbx/release"]) {
      await Deno.mkdir(join(follower.dir, folder), { recursive: true });
    }
    await Deno.writeTextFile(machine.path, script("0.9.0"), { mode: 0o755 });
    await Deno.writeTextFile(
      follower.machine.users,
      `root:x:0:0::/root:/bin/sh\nme:x:${USER}:${USER}::${join(follower.dir, "user")}:/bin/sh\n`,
    );
    await follower.program(machine.path);
    await follower.publish("1.1.0");
    await follower.program(machine.path);
    return machine;
  }

  /** What `sudo sbx update program --rollback` does, without the variables of the user. */
  async rollback(place = this.root) {
    const url = Deno.env.get("SBX_RELEASE_CHANNELS_URL")!;
    Deno.env.delete("SBX_RELEASE_CHANNELS_URL");
    try {
      return await this.follower.program(this.path, { rollback: true, home: place });
    } finally {
      Deno.env.set("SBX_RELEASE_CHANNELS_URL", url);
    }
  }

  async requireRefused(place = this.root): Promise<void> {
    const { code, message } = await assertRejects(() => this.rollback(place), SbxError);
    assertEquals([code, message.includes("sbx 1.0.0 is revoked")], ["release.revoked", true]);
    assertEquals(await Deno.readTextFile(this.path), script("1.1.0"));
  }

  /** A rollback that goes ahead, and says that the channel was not asked. */
  async requireDone(): Promise<void> {
    const { to, unasked } = await this.rollback();
    assertEquals(to, "1.0.0");
    assertStringIncludes(unasked!, "no release channel is configured");
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.follower[Symbol.asyncDispose]();
  }
}

function homeIn(dir: string) {
  return home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
}

Deno.test(
  "a revocation that a user's home proves counts for root, and root's for every user",
  { ignore },
  async () => {
    await using machine = await Machine.make();
    const { follower } = machine;
    await follower.mark("1.0.0", "revoked");
    await follower.updates.check();
    await Deno.copyFile(join(follower.dir, "release/revocations.json"), machine.proof);
    await Deno.chown(machine.proof, USER, USER);
    await Deno.chmod(machine.proof, 0o600);
    await machine.requireRefused();
    await Deno.remove(machine.proof);
    // Root learns of it, and shares it.
    await follower.program(machine.path, { home: machine.root });
    await Deno.remove(machine.root.dir, { recursive: true });
    await Deno.mkdir(machine.root.dir);
    await Deno.writeTextFile(follower.machine.users, "");
    await machine.requireRefused();
    assertEquals((await Deno.stat(join(follower.machine.shared, "revocations.json"))).mode! & 0o777, 0o644);
  },
);

Deno.test("a rollback asks the channel, and says when it could not", { ignore }, async () => {
  await using machine = await Machine.make();
  const { follower } = machine;
  await machine.requireDone();
  assertEquals((await machine.rollback()).to, "1.1.0");
  await follower.mark("1.0.0", "revoked");
  const ask = () => follower.program(machine.path, { rollback: true, home: machine.root });
  assertEquals((await assertRejects(ask, SbxError)).code, "release.revoked");
  // The memory of that answer holds without a channel.
  await machine.requireRefused();
});

Deno.test("no file of another user keeps a good program back, or root waiting", { ignore }, async (t) => {
  await using other = await ReleaseWorkspace.make();
  other.program = script;
  await other.release("1.0.0");
  await other.release("1.1.0");
  await markRelease(await Workspace.open(other.dir), "stable", "1.0.0", "revoked");
  await other.sign();
  await other.publish();
  const files: Record<string, (path: string, dir: string) => Promise<unknown>> = {
    "signed by another publisher": async (path, dir) => {
      const server = await serveTree(other.out, 0);
      const memory = new ReleaseMemory({ dir: join(dir, "forged") });
      await checkChannel({
        index: parseIndexUrl(server.url),
        channel: "stable",
        keys: await other.keys(),
        memory,
        fetch: fetchDocument,
        now: other.now,
      });
      await server.close();
      await Deno.copyFile(memory.proofPath, path);
    },
    "no proof at all": (path) => Deno.writeTextFile(path, '{"schema":"sbx.revocations.v1","proofs":[{}]}'),
    "without an end": (path) => Deno.symlink("/dev/zero", path),
    "a pipe that nobody writes to": (path) => runChild("mkfifo", { args: ["-m", "666", path] }),
    "a file that only root may read": (path, dir) => Deno.symlink(join(dir, "release/memory.json"), path),
  };
  await using machine = await Machine.make();
  for (const [name, write] of Object.entries(files)) {
    await t.step(name, async () => {
      await write(machine.proof, machine.follower.dir);
      await machine.requireDone();
      await Deno.remove(machine.proof);
      assertEquals((await machine.rollback()).to, "1.1.0");
    });
  }
});
