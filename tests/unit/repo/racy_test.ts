/** Changes within the second in which git wrote its index: of the same size, they show in the content alone. */
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
