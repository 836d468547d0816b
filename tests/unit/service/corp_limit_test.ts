/**
 * Limits of corp.toml, and attempts to exceed them (docs/design/contracts/03-settings.md §3, "Corp limits").
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { corpLayer } from "../../../lib/home/mod.ts";
import { requireCorpProfile, requireCorpVersion } from "../../../lib/service/contract/corp.ts";
import { checkCorp } from "../../../lib/home/value_check/mod.ts";
import { grantOf } from "../../../lib/session/mod.ts";
import { Lifetime } from "../../../lib/session/enforcement.ts";

async function withCorp(text: string, work: (corp: CorpStore) => void | Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(dir, "corp.toml"), text);
    const corp = new CorpStore({ dir }, { managed: join(dir, "corp.toml") }, checkCorp);
    await corp.load();
    await work(corp);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const codeOf = (work: () => void) => assertThrows(work, SbxError).code;

Deno.test("an sbx that is older than corp requires boots nothing", async () => {
  for (const range of [">=99.0.0", ">= 0.1.1", ">=0.1.0+x.1"]) {
    await withCorp(`[corp.require]\nsbx = "${range}"\n`, (corp) => {
      if (range === ">=0.1.0+x.1") return requireCorpVersion(corp);
      assertEquals(codeOf(() => requireCorpVersion(corp)), "corp.version");
    });
  }
  await withCorp('[corp.require]\nsbx = ">=0.1.0"\n', requireCorpVersion);
  await withCorp("", requireCorpVersion);
});

Deno.test("only the profiles that corp lists are booted", async () => {
  await withCorp('[corp.limits]\nprofiles = ["code", "locked"]\n', (corp) => {
    requireCorpProfile(corp, "code");
    for (const id of ["co-work", "Code", "code ", "mine", ""]) {
      assertEquals(codeOf(() => requireCorpProfile(corp, id)), "corp.profile", id);
    }
  });
  await withCorp("[corp.limits]\nprofiles = []\n", (corp) => {
    assertEquals(codeOf(() => requireCorpProfile(corp, "code")), "corp.profile");
  });
});

Deno.test("a profile gets no credentials of providers that corp leaves out", async () => {
  const profile = { rules: [], packs: [], mcp: {}, providers: ["anthropic" as const, "openai" as const] };
  await withCorp('[corp.limits]\nproviders = ["openai", "github"]\n', async (corp) => {
    assertEquals(grantOf({ profile, corp: await corpLayer(corp) }).providers, ["openai"]);
  });
  await withCorp("[corp.limits]\nproviders = []\n", async (corp) => {
    assertEquals(grantOf({ profile, corp: await corpLayer(corp) }).providers, []);
  });
  await withCorp("", async (corp) => {
    assertEquals(grantOf({ profile, corp: await corpLayer(corp) }).providers, ["anthropic", "openai"]);
  });
});

Deno.test("unknown keys and wrong values make corp.toml broken, with their line", async () => {
  const mistakes = [
    '[corp.require]\nsbx = "1.0.0"',
    '[corp.require]\nsbx = "<2"',
    '[corp.require]\nnode = ">=1"',
    '[corp.limits]\nprofile = ["code"]',
    '[corp.limits]\nprofiles = ["../x"]',
    '[corp.limits]\nproviders = ["nobody"]',
    "[corp.limits]\nvm_minutes = 0",
    "[corp.limits]\nvm_minutes = 999999",
    "[corp.limits]\nvm_minutes = 1.5",
  ];
  for (const text of mistakes) {
    await withCorp(text, ({ state }) => {
      assertEquals(state.status, "closed", text);
      assert("error" in state && /corp\.toml:[12]/.test(state.error.message), text);
    });
  }
});

Deno.test("a machine ends when its time is over, counted from its start also for a later limit", async () => {
  const { promise, resolve } = Promise.withResolvers<number>();
  using lifetime = new Lifetime(resolve, 10);
  lifetime.use(30_000);
  lifetime.use(undefined);
  await new Promise((then) => setTimeout(then, 30));
  // Three minutes of this clock are over.
  lifetime.use(2);
  // Unlike the timer of a machine, this one keeps the test alive.
  const alive = setInterval(() => {}, 1000);
  assertEquals(await promise, 2);
  clearInterval(alive);
});
