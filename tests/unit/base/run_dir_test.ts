import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { start } from "../../../lib/client/mod.ts";
import { lockGateway } from "../../../lib/client/gateway/mod.ts";

Deno.test("a run folder that another user made after the home was looked at is refused", async () => {
  const dir = await Deno.makeTempDir();
  const runDir = join(dir, "run");
  const place = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  await Deno.mkdir(runDir);
  // What a folder of another user looks like: root can make one, others a folder that everybody may enter.
  if (Deno.uid() === 0) await Deno.chown(runDir, 65534, 65534);
  else await Deno.chmod(runDir, 0o777);
  const { code } = await assertRejects(() => lockGateway(place), SbxError);
  assertEquals([code, Array.from(Deno.readDirSync(runDir))], ["home.foreign", []]);
  assertEquals((await assertRejects(() => start(place), SbxError)).code, "home.foreign");
  assertEquals(Array.from(Deno.readDirSync(runDir)), []);
  await Deno.remove(runDir);
  using _lock = await lockGateway(place);
  assertEquals(Deno.statSync(runDir).mode! & 0o777, 0o700);
  await Deno.remove(dir, { recursive: true });
});
