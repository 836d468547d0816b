import { assertEquals } from "@std/assert";
import { readSetup, recordStep, setupPath } from "../../../../lib/release/setup/mod.ts";

Deno.test("steps are recorded once each; new assets have booted nothing", async () => {
  const home = { dir: await Deno.makeTempDir() };
  assertEquals((await readSetup(home)).present, false);
  await Promise.all(["assets", "vm", "providers"].map((step) => recordStep(home, step as "vm")));
  await recordStep(home, "vm");
  const done = await readSetup(home);
  assertEquals(done.completed_steps, ["assets", "vm", "providers"]);
  assertEquals([done.install_completed, done.vm_verified, done.providers_done], [true, true, true]);
  await recordStep(home, "assets");
  assertEquals((await readSetup(home)).completed_steps, ["assets", "providers"]);
  await Deno.writeTextFile(setupPath(home), "{");
  const broken = await readSetup(home);
  assertEquals([broken.present, broken.parse_error !== null, broken.completed_steps], [true, true, []]);
  await Deno.remove(home.dir, { recursive: true });
  await recordStep(home, "vm");
});
