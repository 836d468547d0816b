/**
 * Every setting that is offered does something: service or desktop read it, or
 * each boot passes it to the guest.
 */
import { assertEquals } from "@std/assert";
import {
  bootConfig,
  EMPTY_LAYER,
  loadDefinitions,
  resolve,
  userLayer,
} from "../../../lib/config/settings/mod.ts";
import { parseToml } from "../../../lib/base/toml/mod.ts";
import { exampleOf } from "../../../scripts/docs_settings.ts";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

const definitions = await loadDefinitions({ get: () => undefined });

/**
 * Text of the modules that act on settings: the service, without what only checks
 * values, and the desktop's look.
 */
async function readerText(): Promise<string> {
  const texts = [await Deno.readTextFile(fromRoot("cmd/desktop/app/look.ts"))];
  for (const path of [...await codeBelow("lib/home"), ...await codeBelow("lib/service")]) {
    texts.push(await Deno.readTextFile(fromRoot(path)));
  }
  return texts.join("\n");
}

/** True if a value of the setting changes what a VM gets at boot. */
function reachesGuest(id: string): boolean {
  const { type, metadata, default: fallback } = definitions.byId.get(id)!;
  if (type !== "file" && metadata.env_vars.length === 0) return false;
  const value = type === "file" ? `{ path = "/root/x", content = "mark" }` : JSON.stringify(
    Array.isArray(fallback) ? [fallback[0] ?? "mark"] : exampleOf(definitions.byId.get(id)!),
  );
  const user = userLayer(parseToml(`[settings."${id}"]\nvalue = ${value}\n`, "settings.toml"), definitions);
  assertEquals(user.issues, [], id);
  const { env, files } = bootConfig(resolve(definitions, user, EMPTY_LAYER));
  return type === "file"
    ? files.some(({ content }) => content === "mark")
    : metadata.env_vars.every((name) => env[name] !== undefined);
}

Deno.test("every visible setting is read, by its id or its side effect, or reaches the guest at boot", async () => {
  const read = await readerText();
  const idle = definitions.leaves.filter(({ id, metadata }) =>
    !metadata.hidden && !read.includes(`"${id}"`) && !read.includes(`"${metadata.side_effect}"`) &&
    !reachesGuest(id)
  );
  assertEquals(idle.map(({ id }) => id), []);
});

Deno.test("a hidden built-in setting is one that nothing reads yet", async () => {
  const read = await readerText();
  const hidden = definitions.leaves.filter(({ metadata }) => metadata.hidden);
  assertEquals(
    hidden.filter(({ id }) => read.includes(`"${id}"`) || reachesGuest(id)).map(({ id }) => id),
    [],
  );
});
