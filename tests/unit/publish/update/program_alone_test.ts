/** The program itself, installed from a channel (docs/guides/updates.md, "The program"). */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { Follower } from "../../../helper/follower.ts";

const script = (version: string) => `#!/bin/sh\n# ${version}\necho '{"version": "${version}"}'\n`;

interface Machine {
  follower: Follower;
  /** file of the program, of version 0.9.0 */
  path: string;
  /** names in its folder */
  names(): Promise<string[]>;
}

async function onMachine(test: (machine: Machine) => Promise<void>): Promise<void> {
  await using follower = await Follower.make((workspace) => workspace.program = script);
  const dir = join(follower.dir, "bin");
  const path = join(dir, "sbx");
  await Deno.mkdir(dir);
  await Deno.writeTextFile(path, script("0.9.0"), { mode: 0o755 });
  const names = async () => (await Array.fromAsync(Deno.readDir(dir), ({ name }) => name)).sort();
  await test({ follower, path, names });
}

async function codeOf(work: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(work, SbxError)).code;
}

Deno.test("a program is replaced by that of the channel, and put back", () =>
  onMachine(async ({ follower, path, names }) => {
    using running = await Deno.open(path);
    const inode = (await Deno.stat(path)).ino;
    assertEquals(await follower.program(path), {
      path,
      from: "0.9.0",
      to: "1.0.0",
      changed: true,
      accepted: [],
    });
    assertEquals([await Deno.readTextFile(path), await names()], [script("1.0.0"), ["sbx", "sbx.previous"]]);
    assertEquals((await Deno.stat(path)).mode! & 0o777, 0o755);
    // A process that runs keeps the file that it was started from.
    assertEquals((await running.stat()).ino, inode);
    assertEquals((await Deno.stat(`${path}.previous`)).ino, inode);
    assertEquals((await follower.program(path)).changed, false);
    const back = await follower.program(path, { rollback: true });
    assertEquals([back.from, back.to, await Deno.readTextFile(path)], ["1.0.0", "0.9.0", script("0.9.0")]);
    const again = await follower.program(path, { rollback: true });
    assertEquals([again.to, await Deno.readTextFile(path)], ["1.0.0", script("1.0.0")]);
    const { history } = await follower.updates.status();
    assertEquals(history.map(({ what, from, to, downgrade }) => [what, from, to, downgrade]), [
      ["program", "0.9.0", "1.0.0", undefined],
      ["program", "1.0.0", "0.9.0", true],
      ["program", "0.9.0", "1.0.0", undefined],
    ]);
  }));

Deno.test("a program of other bytes than its record's, or one that does not run, changes nothing", async (t) => {
  const cases: [string, (version: string) => string, string][] = [
    ["fails", () => "#!/bin/sh\necho broken >&2; exit 3\n", "it exited with 3: broken"],
    ["is for another machine", () => "\x7fELF no program", "does not run on this machine"],
    ["says nothing", () => "#!/bin/sh\n", "it says no version"],
    ["says another version", () => script("6.6.6"), "it is sbx 6.6.6, not 1.0.0"],
  ];
  for (const [name, program, message] of cases) {
    await t.step(name, async () => {
      await using follower = await Follower.make((workspace) => workspace.program = program);
      const path = join(follower.dir, "sbx");
      await Deno.writeTextFile(path, script("0.9.0"), { mode: 0o755 });
      const error = await assertRejects(() => follower.program(path), SbxError);
      assertEquals(error.code, "update.program.failed");
      assertStringIncludes(error.message, message);
      assertEquals(await Deno.readTextFile(path), script("0.9.0"));
    });
  }
  await t.step("the package was changed", () =>
    onMachine(async ({ follower, path, names }) => {
      const deb = join(follower.workspace.out, "assets/stable/1.0.0/sbx_1.0.0_amd64.deb");
      const bytes = await Deno.readFile(deb);
      bytes[bytes.length - 100] ^= 1;
      await Deno.writeFile(deb, bytes);
      assertEquals(await codeOf(() => follower.program(path)), "assets.mismatch");
      assertEquals([await Deno.readTextFile(path), await names()], [script("0.9.0"), ["sbx"]]);
    }));
});

Deno.test("an older program is installed by a person's word alone, a revoked one never", () =>
  onMachine(async ({ follower, path }) => {
    await follower.publish("1.1.0");
    await follower.program(path);
    await follower.mark("1.1.0", "revoked");
    assertEquals(await codeOf(() => follower.program(path)), "assets.downgrade");
    assertEquals((await follower.program(path, { allowDowngrade: true })).to, "1.0.0");
    assertEquals(await codeOf(() => follower.program(path, { rollback: true })), "release.revoked");
    assertEquals(await Deno.readTextFile(path), script("1.0.0"));
  }));

Deno.test("two updates at once, after one that was killed, leave one whole program", () =>
  onMachine(async ({ follower, path, names }) => {
    await Deno.writeTextFile(join(path, `../.sbx-program-${crypto.randomUUID()}`), "part");
    const changes = await Promise.all([follower.program(path), follower.program(path)]);
    assertEquals(changes.map(({ changed }) => changed).sort(), [false, true]);
    assertEquals([await Deno.readTextFile(path), await names()], [script("1.0.0"), ["sbx", "sbx.previous"]]);
  }));

Deno.test("a program without a previous one, of a package, or of sources is not replaced", () =>
  onMachine(async ({ follower, path }) => {
    assertEquals(await codeOf(() => follower.program(path, { rollback: true })), "update.program.not_found");
    const owned = await assertRejects(() => follower.program("/usr/bin/dpkg"), SbxError);
    assertEquals([owned.code, owned.message], [
      "update.program.owned",
      '/usr/bin/dpkg belongs to the package "dpkg"',
    ]);
    assertEquals(await codeOf(() => follower.program(undefined)), "update.program.source");
  }));
