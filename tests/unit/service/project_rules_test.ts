/**
 * Project files as the service reads them, for every client
 * (docs/design/contracts/04-profiles.md §4, "Project files").
 */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { approve, readProject } from "../../../lib/config/project/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { checkCorp } from "../../../lib/home/value_check/mod.ts";
import { projectRules } from "../../../lib/service/contract/project.ts";

const RULE = '[rules.no-paste]\naction = "block"\nmatch = "http.request.host == \\"paste.example\\""\n';
const ASKS = '[env]\nCI = "true"\n';

/** A home, its corp, and a folder with a project file. */
async function world(text: string | undefined, limit?: "narrow" | "require") {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const corpFile = join(dir, "corp.toml");
  if (limit) await Deno.writeTextFile(corpFile, `[corp.limits]\nproject_files = "${limit}"\n`);
  const corp = new CorpStore({ dir }, { managed: corpFile }, checkCorp);
  await corp.load();
  const folder = join(dir, "folder");
  await Deno.mkdir(folder);
  if (text !== undefined) await Deno.writeTextFile(join(folder, ".sbx.toml"), text);
  const home = { dir: join(dir, "home") };
  type Request = Parameters<typeof projectRules>[2];
  const rules = async (request: Request) => (await projectRules(home, corp, request))?.map(({ id }) => id);
  const codeOf = async (request: Request) => (await assertRejects(() => rules(request), SbxError)).code;
  return { home, folder, rules, codeOf, [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }) };
}

const used = (dir: string) => ({ folders: [{ dir, with_requests: true }] });
const unused = (dir: string) => ({ folders: [{ dir, with_requests: false }] });

Deno.test("the rules of a folder's file hold, whatever the client sent", async () => {
  await using place = await world(RULE + ASKS);
  const other = [{ id: "other", action: "block" as const, match: "true" }];
  assertEquals(await place.rules(unused(place.folder)), ["no-paste"]);
  assertEquals(await place.rules({ ...unused(place.folder), project: other }), ["other", "no-paste"]);
  assertEquals(
    await place.rules({ live: { dir: place.folder } }),
    ["no-paste"],
    "a shared folder needs no naming",
  );
  assertEquals(await place.rules({ project: other }), ["other"]);
  assertEquals(await place.rules({}), undefined);
});

Deno.test("what a client says it took from a file must have been approved", async () => {
  await using place = await world(RULE + ASKS);
  assertEquals(await place.codeOf(used(place.folder)), "project.unapproved");
  await approve(place.home, (await readProject(place.folder))!);
  assertEquals(await place.rules(used(place.folder)), ["no-paste"]);
  await Deno.writeTextFile(join(place.folder, ".sbx.toml"), RULE + ASKS + "\n");
  assertEquals(await place.codeOf(used(place.folder)), "project.unapproved", "other bytes by now");
});

Deno.test("where corp lets files only take away, an approval changes nothing", async () => {
  await using place = await world(RULE + ASKS, "narrow");
  await approve(place.home, (await readProject(place.folder))!);
  assertEquals(await place.codeOf(used(place.folder)), "project.forbidden");
  assertEquals(await place.rules(unused(place.folder)), ["no-paste"]);
});

Deno.test("where corp requires files, no folder comes in without its own", async () => {
  await using none = await world(undefined, "require");
  assertEquals(await none.codeOf(unused(none.folder)), "project.required");
  assertEquals(await none.codeOf({ live: { dir: none.folder } }), "project.required");
  assertEquals(await none.rules({}), undefined, "it works on no folder");

  await using asks = await world(RULE + ASKS, "require");
  assertEquals(await asks.codeOf(unused(asks.folder)), "project.required");
  assertEquals(await asks.codeOf({ live: { dir: asks.folder } }), "project.required");
  await approve(asks.home, (await readProject(asks.folder))!);
  const link = join(asks.home.dir, "link");
  await Deno.symlink(asks.folder, link);
  assertEquals(await asks.rules({ live: { dir: link }, ...used(asks.folder) }), ["no-paste"]);

  await using narrow = await world(RULE, "require");
  assertEquals(await narrow.rules({ live: { dir: narrow.folder } }), ["no-paste"]);
});
