import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { runStages, type Stage } from "../../../scripts/release/stage.ts";

const RELEASE = { version: "1.0.0", commit: "abc" };

class World implements AsyncDisposable {
  readonly ran: string[] = [];
  private constructor(readonly dir: string) {}

  static async make(): Promise<World> {
    return new World(await Deno.makeTempDir());
  }

  stage(name: string, inputs: string[], output: string, change: Partial<Stage> = {}): Stage {
    const run = async () => {
      this.ran.push(name);
      await Deno.writeTextFile(join(this.dir, output), `${name} of ${await this.text(inputs[0])}`);
    };
    return { name, inputs, outputs: [output], run, ...change };
  }

  async text(path?: string): Promise<string> {
    return path === undefined ? "" : await Deno.readTextFile(join(this.dir, path));
  }

  async run(stages: Stage[], release = RELEASE) {
    this.ran.length = 0;
    return await runStages(this.dir, release, stages, () => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.dir, { recursive: true });
  }
}

Deno.test("a release goes on where it was, and repeats what has changed with all that follows", async () => {
  await using world = await World.make();
  await Deno.writeTextFile(join(world.dir, "source"), "one");
  const stages = [
    world.stage("build", ["source"], "built"),
    world.stage("sign", ["built"], "signed"),
    world.stage("publish", ["signed"], "published"),
  ];
  const record = await world.run(stages);
  assertEquals(world.ran, ["build", "sign", "publish"]);
  assertEquals(record.stages.map(({ state }) => state), ["done", "done", "done"]);
  assertEquals(Object.keys(record.stages[1].inputs), ["built"]);
  assertEquals(record.stages[0].outputs, record.stages[1].inputs);

  await world.run(stages);
  assertEquals(world.ran, []);
  await Deno.writeTextFile(join(world.dir, "signed"), "by somebody else");
  await world.run(stages);
  assertEquals(world.ran, ["sign", "publish"]);
  await Deno.writeTextFile(join(world.dir, "source"), "two");
  await world.run(stages);
  assertEquals(world.ran, ["build", "sign", "publish"]);
  await world.run(stages, { ...RELEASE, commit: "def" });
  assertEquals(world.ran, ["build", "sign", "publish"]);
});

Deno.test("a stage that fails ends the release, is recorded, and runs again", async () => {
  await using world = await World.make();
  await Deno.writeTextFile(join(world.dir, "source"), "one");
  const build = world.stage("build", ["source"], "built");
  const fails = {
    ...world.stage("sign", ["built"], "signed"),
    run: () => Promise.reject(new Error("no key")),
  };
  const publish = world.stage("publish", ["signed"], "published");
  await assertRejects(() => world.run([build, fails, publish]), Error, "no key");
  const record = JSON.parse(await world.text("release-record.json"));
  assertEquals(
    record.stages.map(({ name, state, detail }: Record<string, string>) => [name, state, detail]),
    [
      ["build", "done", undefined],
      ["sign", "failed", "no key"],
    ],
  );
  await world.run([build, world.stage("sign", ["built"], "signed"), publish]);
  assertEquals(world.ran, ["sign", "publish"]);
});

Deno.test("a stage that does not write its outputs has failed", async () => {
  await using world = await World.make();
  const stage = { name: "build", inputs: [], outputs: ["built"], run: () => Promise.resolve() };
  await assertRejects(() => world.run([stage]), Error, "it did not write built");
});

Deno.test("a stage without work is recorded as skipped, and runs when there is work", async () => {
  await using world = await World.make();
  await Deno.writeTextFile(join(world.dir, "source"), "one");
  const codesign = world.stage("codesign", ["source"], "signed");
  const record = await world.run([{ ...codesign, skip: "no credentials" }]);
  assertEquals([record.stages[0].state, record.stages[0].detail], ["skipped", "no credentials"]);
  await world.run([codesign]);
  assertEquals(world.ran, ["codesign"]);
});

Deno.test("a folder is hashed by its files", async () => {
  await using world = await World.make();
  await Deno.mkdir(join(world.dir, "tree/a"), { recursive: true });
  await Deno.writeTextFile(join(world.dir, "tree/a/b"), "1");
  const stage = {
    name: "read",
    inputs: ["tree"],
    outputs: [],
    run: () => Promise.resolve(void world.ran.push("read")),
  };
  assertEquals(Object.keys((await world.run([stage])).stages[0].inputs), ["tree/a/b"]);
  await Deno.writeTextFile(join(world.dir, "tree/a/c"), "2");
  await world.run([stage]);
  assertEquals(world.ran, ["read"]);
});
