/**
 * The program of the guest that starts sbx-activity and outlives it;
 * tests/e2e/holds_test.ts has the kernel ask.
 */
import { assert, assertEquals } from "@std/assert";
import { eventually } from "../../../helper/sbx.ts";
import { KEEPER } from "../../../../lib/publish/image/keeper.ts";

/**
 * Stands for Deno: says that it starts, takes over, and is killed. Its arguments end
 * with the program and the group. A keeper that has ended leaves it to the reaper of the
 * test run, which USR1 would end.
 */
const FOLLOWER =
  `echo "start $*" >>"$0"; [ "$(cat /proc/$PPID/comm)" != perl ] || kill -USR1 $PPID; cat; echo follows >>"$0"; kill -9 $$`;

Deno.test("a keeper reads no more before its program follows, and starts it again when that was killed", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  const dir = await Deno.makeTempDir();
  const log = `${dir}/log`;
  await Deno.writeTextFile(log, "");
  await Deno.writeTextFile(`${dir}/keeper`, KEEPER);
  const args = [`${dir}/keeper`, String(Deno.pid), "/bin/sh", "-c", FOLLOWER, log];
  const keeper = new Deno.Command("/usr/bin/perl", { args, stdin: "null", stderr: "piped" }).spawn();
  try {
    const lines = async () => (await Deno.readTextFile(log)).trim().split("\n");
    await eventually("it is started again", async () => (await lines()).length >= 4);
    const [start, follows, ...again] = await lines();
    assert(/^start \/usr\/lib\/sbx\/sbx-activity\.js -?\d+$/.test(start), start);
    assertEquals([follows, ...again.slice(0, 2)], ["follows", start, "follows"]);
  } finally {
    keeper.kill("SIGKILL");
    assertEquals(new TextDecoder().decode((await keeper.output()).stderr), "");
    await Deno.remove(dir, { recursive: true });
  }
});
