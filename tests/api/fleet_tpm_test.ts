/** The key of an enrolled machine in a TPM, with tpm2-tools and a TPM in software. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { listMachines, makeToken } from "../../lib/fleet/receive/mod.ts";
import { readMachineKey } from "../../lib/release/signing/mod.ts";
import { World } from "../helper/enrolment.ts";
import { exists } from "../helper/exists.ts";
import { SoftTpm } from "../helper/tpm.ts";

const TOOLS = ["tpm2_createprimary", "tpm2_create", "tpm2_load", "tpm2_unseal", "tpm2_flushcontext"];

/** A machine of a fleet with a TPM. */
class Machine implements AsyncDisposable {
  private constructor(readonly world: World, readonly tpm: SoftTpm) {}

  static async start(): Promise<Machine> {
    const world = await World.start();
    return new Machine(world, await startTpm(world, "tpm"));
  }

  get attest(): string {
    return join(this.world.dir, "etc/fleet/attest");
  }

  get sealed(): string {
    return join(this.attest, "machine-key.tpm.json");
  }

  get file(): string {
    return join(this.attest, "machine-key.pem");
  }

  async admin(args: string[], stdin = "", tpm = this.tpm.variables) {
    return await this.world.admin(args, stdin, { tpm });
  }

  async token(): Promise<string> {
    return (await makeToken(this.world.store, { machines: 1 })).token;
  }

  async [Symbol.asyncDispose]() {
    await this.tpm[Symbol.asyncDispose]();
    await this.world[Symbol.asyncDispose]();
  }
}

async function startTpm(world: World, name: string): Promise<SoftTpm> {
  const dir = join(world.dir, name);
  await Deno.mkdir(dir);
  return await SoftTpm.start(dir);
}

/** Texts of all files below a folder. */
async function textsBelow(dir: string): Promise<string> {
  let all = "";
  for await (const { name, isDirectory } of Deno.readDir(dir)) {
    const path = join(dir, name);
    all += isDirectory ? await textsBelow(path) : new TextDecoder().decode(await Deno.readFile(path));
  }
  return all;
}

Deno.test("a machine with a TPM enrols with a sealed key, and its homes derive from it", async () => {
  await using machine = await Machine.start();
  const enrolled = await machine.admin(["enrol", "--name", "laptop-1"], await machine.token());
  assertEquals(enrolled.code, 0, enrolled.text);
  assertStringIncludes(enrolled.text, `its key is in ${machine.sealed}, which this machine's TPM sealed`);
  assertEquals((await Deno.stat(machine.sealed)).mode! & 0o777, 0o600);
  assert(!await exists(machine.file));
  const { home, key } = await machine.world.home("ann");
  // More calls than a TPM has places for objects.
  for (let at = 0; at < 3; at++) {
    const homes = await machine.admin(["homes", "--home", home.dir, "--json"]);
    assertEquals(homes.code, 0, homes.text);
    const answer = JSON.parse(homes.text);
    assertEquals(answer.key, { in: "tpm", path: machine.sealed });
    assertEquals(answer.homes[0].home_id, key.publicKey.id);
  }
  const machines = await listMachines(machine.world.store);
  assertEquals(machines.find(({ of }) => of !== undefined)?.machine_id, key.publicKey.id);
  const left = await Array.fromAsync(Deno.readDir(machine.attest), ({ name }) => name);
  assertEquals(left.sort(), ["lock", "machine-key.json", "machine-key.tpm.json"]);
});

Deno.test("a copy of the disk opens nothing on another machine, and says what to do", async () => {
  await using machine = await Machine.start();
  await machine.admin(["enrol", "--name", "laptop-1"], await machine.token());
  const { home } = await machine.world.home("ann");
  await using other = await startTpm(machine.world, "other");
  const homes = (tpm: SoftTpm) => machine.admin(["homes", "--home", home.dir], "", tpm.variables);
  for (const args of [["homes", "--home", home.dir], ["enrol", "--name", "laptop-2"], ["bind"]]) {
    const { code, text } = await machine.admin(args, await machine.token(), other.variables);
    assertEquals(code, 1, args[0]);
    assertStringIncludes(text, `${machine.sealed} does not open here: another TPM sealed it`);
    assertStringIncludes(text, `move ${machine.attest} away and enrol with a new token`);
  }
  assertEquals((await listMachines(machine.world.store)).length, 1);

  // It did no harm, and the machine itself goes on.
  assertEquals((await homes(machine.tpm)).code, 0);
  // As the error says, on the other machine.
  await Deno.rename(machine.attest, join(machine.world.dir, "away"));
  const absent = await homes(other);
  assertStringIncludes(absent.text, "this machine is not enrolled");
  const again = await machine.admin(
    ["enrol", "--name", "laptop-2"],
    await machine.token(),
    other.variables,
  );
  assertEquals(again.code, 0, again.text);
  assertEquals((await listMachines(machine.world.store)).filter(({ of }) => !of).length, 2);
});

Deno.test("a key in a file is bound by one command or by enrolling again, and is in no argument, variable or file", async () => {
  for (const again of [["bind"], ["enrol", "--name", "laptop-1"]]) {
    await using machine = await Machine.start();
    const token = await machine.token();
    const first = await machine.admin(["enrol", "--name", "laptop-1", "--tpm", "off"], token);
    assertEquals(first.code, 0, first.text);
    assertStringIncludes(first.text, `its key is in ${machine.file}, not bound to a TPM`);
    const { home } = await machine.world.home("ann");
    const plain = await machine.admin(["homes", "--home", home.dir, "--json"]);
    assertEquals(JSON.parse(plain.text).key, { in: "file", path: machine.file });
    const key = await readMachineKey({ dir: join(machine.attest, "..") });
    const secret = (await Deno.readTextFile(machine.file)).split("\n")[1];
    assertStringIncludes(await textsBelow(machine.attest), secret);

    const log = join(machine.world.dir, "log");
    const bin = join(machine.world.dir, "bin");
    await Deno.mkdir(bin);
    for (const tool of TOOLS) {
      await Deno.writeTextFile(
        join(bin, tool),
        `#!/bin/sh\n{ echo "$0" "$@"; env; } >>${log}\nexec /usr/bin/${tool} "$@"\n`,
        { mode: 0o755 },
      );
    }
    const spied = { ...machine.tpm.variables, PATH: `${bin}:${Deno.env.get("PATH")}` };
    const bound = await machine.admin(again, again[0] === "enrol" ? await machine.token() : "", spied);
    assertEquals(bound.code, 0, bound.text);
    assertStringIncludes(bound.text, "which this machine's TPM sealed");
    const calls = await Deno.readTextFile(log);
    for (const tool of TOOLS) assertStringIncludes(calls, `${tool} `);
    for (const text of [calls, bound.text, await textsBelow(join(machine.world.dir, "etc"))]) {
      assert(!text.includes(secret) && !text.includes(secret.slice(-24)));
    }
    // The same machine: its homes stay.
    assertEquals(await readMachineKey({ dir: join(machine.attest, "..") }), key);
    assertEquals((await machine.admin(["homes", "--home", home.dir])).code, 0);
    assertEquals((await machine.admin(["bind"])).code, 0);
    assertEquals((await listMachines(machine.world.store)).length, 2);
  }
});

Deno.test("a file that a call left, which ended while it bound the key, goes with the next one", async () => {
  await using machine = await Machine.start();
  await machine.admin(["enrol", "--name", "laptop-1", "--tpm", "off"], await machine.token());
  const pem = await Deno.readTextFile(machine.file);
  assertEquals((await machine.admin(["bind"])).code, 0);
  const again = ["enrol", "--name", "laptop-1", "--tpm", "off"];
  for (const args of [["bind"], ["homes", "--json"], again]) {
    await Deno.writeTextFile(machine.file, pem, { mode: 0o600 });
    const { code, text } = await machine.admin(args, await machine.token());
    assertEquals(code, 0, text);
    assert(!await exists(machine.file), args[0]);
  }
});

Deno.test("a folder of the tools' files that a killed call left goes with a later one", async () => {
  await using machine = await Machine.start();
  await machine.admin(["enrol", "--name", "laptop-1"], await machine.token());
  const [left, running] = ["left", "running"].map((name) => join(machine.attest, `.tpm-${name}`));
  for (const dir of [left, running]) {
    await Deno.mkdir(dir);
    await Deno.writeTextFile(join(dir, "public"), "");
  }
  const hourAgo = new Date(Date.now() - 3_600_000);
  await Deno.utime(left, hourAgo, hourAgo);
  const { code, text } = await machine.admin(["homes"]);
  assertEquals(code, 0, text);
  assert(!await exists(left));
  // Another call may be at work in it.
  assert(await exists(running));
});

Deno.test("a key whose file has another name is not called bound, since it would stay there", async () => {
  await using machine = await Machine.start();
  await machine.admin(["enrol", "--name", "laptop-1", "--tpm", "off"], await machine.token());
  const elsewhere = join(machine.world.dir, "elsewhere.pem");
  await Deno.rename(machine.file, elsewhere);
  for (const link of [Deno.symlink, Deno.link]) {
    await link(elsewhere, machine.file);
    const { code, text } = await machine.admin(["bind"]);
    assertEquals(code, 1, text);
    assertStringIncludes(text, `${machine.file} is a link, and the key would stay in the other file`);
    assert(await exists(machine.file) && !await exists(machine.sealed));
    await Deno.remove(machine.file);
  }
});

Deno.test("without tpm2-tools a TPM is not used, with a warning, unless it is required", async () => {
  await using machine = await Machine.start();
  const bin = join(machine.world.dir, "bin");
  await Deno.mkdir(bin);
  for await (const { name } of Deno.readDir("/usr/bin")) {
    if (!name.startsWith("tpm2")) await Deno.symlink(join("/usr/bin", name), join(bin, name));
  }
  const without = { ...machine.tpm.variables, PATH: bin };
  const refused = await machine.admin(
    ["enrol", "--name", "laptop-1", "--tpm", "required"],
    await machine.token(),
    without,
  );
  assertEquals(refused.code, 1);
  assertStringIncludes(refused.text, "install the package tpm2-tools");
  assert(!await exists(machine.file));
  assertEquals(await listMachines(machine.world.store), []);

  const enrolled = await machine.admin(["enrol", "--name", "laptop-1"], await machine.token(), without);
  assertEquals(enrolled.code, 0, enrolled.text);
  assertStringIncludes(enrolled.text, "install the package tpm2-tools, and then sbx-admin fleet bind");
  assertStringIncludes(enrolled.text, "not bound to a TPM");
  assertEquals((await machine.admin(["bind"])).code, 0);
  const { text } = await machine.admin(["homes"], "", without);
  assertStringIncludes(text, "the TPM of this machine cannot be used: tpm2_createprimary is missing");
});

Deno.test("corp requires the TPM: a key in a file enrols nothing, and no option lifts it", async () => {
  await using machine = await Machine.start();
  await machine.admin(["enrol", "--name", "laptop-1", "--tpm", "off"], await machine.token());
  const corp = await Deno.readTextFile(machine.world.corpPath);
  await Deno.writeTextFile(machine.world.corpPath, corp.replace("[fleet]", '[fleet]\ntpm = "required"'));
  const { home } = await machine.world.home("ann");
  const homes = await machine.admin(["homes", "--home", home.dir]);
  assertEquals(homes.code, 1);
  assertStringIncludes(homes.text, `corp requires the TPM, and ${machine.file} is not bound to it`);
  assertStringIncludes(homes.text, "sbx-admin fleet bind");
  const off = await machine.admin(["enrol", "--name", "laptop-1", "--tpm", "off"], await machine.token());
  assertEquals(off.code, 1);
  assertStringIncludes(off.text, "corp requires the TPM");
  assertEquals((await machine.admin(["bind"])).code, 0);
  assertEquals((await machine.admin(["homes", "--home", home.dir])).code, 0);
});

Deno.test("a lockout after wrong passwords does not concern the key", async () => {
  await using machine = await Machine.start();
  const { tpm } = machine;
  await machine.admin(["enrol", "--name", "laptop-1"], await machine.token());
  const at = (name: string) => join(machine.world.dir, name);
  const run = async (tool: string, ...args: string[]) => {
    const code = await tpm.run(tool, ...args);
    await tpm.run("tpm2_flushcontext", "-t");
    return code;
  };
  const [parent, pub, priv] = [at("parent"), at("pub"), at("priv")];
  assertEquals(await run("tpm2_dictionarylockout", "-s", "-n", "1", "-t", "1000", "-l", "1000"), 0);
  assertEquals(await run("tpm2_createprimary", "-C", "o", "-c", parent), 0);
  await Deno.writeTextFile(at("other"), "other");
  const sealing = ["-C", parent, "-i", at("other"), "-p", "good", "-u", pub, "-r", priv];
  assertEquals(await run("tpm2_create", ...sealing, "-a", "fixedtpm|fixedparent|userwithauth"), 0);
  assertEquals(await run("tpm2_load", "-C", parent, "-u", pub, "-r", priv, "-c", at("object")), 0);
  assert(await run("tpm2_unseal", "-c", at("object"), "-p", "bad") !== 0);
  assert(await run("tpm2_unseal", "-c", at("object"), "-p", "good") !== 0, "the TPM is locked");
  const homes = await machine.admin(["homes"]);
  assertEquals(homes.code, 0, homes.text);
});

Deno.test("a TPM that is gone, or has a password, is named", async () => {
  await using machine = await Machine.start();
  await machine.admin(["enrol", "--name", "laptop-1"], await machine.token());
  assertEquals(await machine.tpm.run("tpm2_changeauth", "-c", "owner", "secret"), 0);
  const locked = await machine.admin(["homes"]);
  assertEquals(locked.code, 1);
  assertStringIncludes(locked.text, "has a password for its owner");
  // It would not help a key that is sealed.
  assert(!locked.text.includes("--tpm off"));
  const attest = `${machine.attest}.away`;
  await Deno.rename(machine.attest, attest);
  const first = await machine.admin(["enrol", "--name", "laptop-2"], await machine.token());
  assertStringIncludes(first.text, "or enrol with --tpm off");
  await Deno.remove(machine.attest, { recursive: true });
  await Deno.rename(attest, machine.attest);
  assertEquals(await machine.tpm.run("tpm2_changeauth", "-c", "owner", "-p", "secret"), 0);
  assertEquals((await machine.admin(["homes"])).code, 0);

  machine.tpm.process.kill();
  await machine.tpm.process.status;
  const gone = await machine.admin(["homes"]);
  assertEquals(gone.code, 1);
  assertStringIncludes(gone.text, "the TPM of this machine does not answer");
  if (!await exists("/dev/tpmrm0")) {
    const none = await machine.admin(["homes"], "", { TPM2TOOLS_TCTI: "" });
    assertEquals(none.code, 1);
    assertStringIncludes(none.text, `this machine has no TPM 2.0 (/dev/tpmrm0): ${machine.sealed}`);
    const required = await machine.world.admin(["enrol", "--tpm", "required"], await machine.token());
    assertStringIncludes(required.text, "this machine has no TPM 2.0");
  }
  await Deno.writeTextFile(machine.sealed, "{}\n");
  const damaged = await machine.admin(["homes"]);
  assertStringIncludes(damaged.text, `${machine.sealed} does not hold a sealed key`);
});
