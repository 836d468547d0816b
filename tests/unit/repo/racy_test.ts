/**
 * Changes within the second in which git wrote its index, which show in the content alone where the size is
 * the same; and programs that read the work at once.
 */
import { assertEquals } from "@std/assert";
import { pullWork } from "../../../lib/repo/mod.ts";
import { git, sh, World } from "../../helper/repository.ts";

/** The file was written when the index was, and again in that second. */
const RACE = `git config core.trustctime false
touch -d @1700000000 a.txt; git update-index --refresh; touch -d @1700000000 .git/index
echo two >a.txt; touch -d @1700000000 a.txt`;

Deno.test("a change of the guest in the second of its index is work", async () => {
  await using world = await World.ofRepository();
  await sh(world.inside, RACE);
  await using work = await world.collect();
  await pullWork(work);
  assertEquals(await git(world.person, "show", "sbx/demo:a.txt"), "two");
});

Deno.test("a change of the person in the second of the index goes in", async () => {
  await using world = await World.make();
  await sh(world.person, `git init -q -b main; echo one >a.txt; git add -A; git commit -q -m first; ${RACE}`);
  await world.bring();
  assertEquals(await Deno.readTextFile(`${world.inside}/a.txt`), "two\n");
});

Deno.test("programs that read the work at once do so one after another in the guest", async () => {
  await using world = await World.ofRepository();
  await sh(world.inside, "echo changed >a.txt");
  const guest = world.guest;
  const run = guest.run.bind(guest);
  let running = 0, most = 0;
  guest.run = async (argv, seconds) => {
    const isCollecting = argv.some((word) => word.includes("update-ref refs/sbx/out"));
    if (isCollecting) most = Math.max(most, ++running);
    const output = await run(argv, seconds);
    if (isCollecting) running--;
    return output;
  };
  const read = async (): Promise<string> => {
    await using work = await world.collect(guest);
    return await work.units[0].store.git.text(["show", `${work.units[0].tip}:a.txt`]);
  };
  assertEquals(await Promise.all(Array.from({ length: 4 }, read)), Array(4).fill("changed"));
  assertEquals(most, 1);
});
