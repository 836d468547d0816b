/** A corp.toml of the right shape that says what does not work: it is never in force, and everybody is told what is wrong. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { corpInfo, CorpStore } from "../../../lib/corp/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { loadDefinitions, SettingsStore, validateCorpFile } from "../../../lib/settings/mod.ts";
import { checkCorp } from "../../../lib/service/mod.ts";
import { corpLayer } from "../../../lib/service/contract.ts";
import { watchCorp } from "../../../lib/service/refresh.ts";

const GOOD = '[corp.rules.a]\naction = "block"\nmatch = \'http.request.host == "x.example"\'\n';
const set = (id: string, value: unknown) => `[settings."${id}"]\nvalue = ${JSON.stringify(value)}\n`;

interface Given {
  dir: string;
  file: string;
  /** writes files beside corp.toml, which is `corp.toml` */
  write(files: Record<string, string>): Promise<void>;
  store: CorpStore;
}

async function inHome(run: (given: Given) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const file = join(dir, "corp.toml");
  try {
    const write = async (files: Record<string, string>) => {
      for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(join(dir, name), text);
    };
    await run({ dir, file, write, store: new CorpStore({ dir }, file, checkCorp) });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** What is wrong, the files, and what the problem says; `DIR` stands for the folder. */
const WRONG: [string, Record<string, string>, string][] = [
  [
    "a rule with a field that does not exist",
    { "corp.toml": GOOD.replace("host", "hst") },
    'DIR/corp.toml:3: corp rule "a": unknown field http.request.hst',
  ],
  [
    "a rule that is no condition",
    { "corp.toml": GOOD.replace(/match.*/, "match = '1 + 1'") },
    "DIR/corp.toml:3:",
  ],
  [
    "a rule file that is not there",
    { "corp.toml": '[corp_rule_files]\nenforcement = "none.toml"\n' },
    "DIR/none.toml",
  ],
  [
    "a rule file with a rule that does not compile",
    {
      "corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n',
      "rules.toml": GOOD.replace("host", "hst"),
    },
    'DIR/rules.toml:3: corp rule "a": unknown field http.request.hst',
  ],
  [
    "detections that are not there",
    { "corp.toml": '[corp_rule_files]\nsigma = "none.yaml"\n' },
    "DIR/none.yaml",
  ],
  [
    "detections that are none",
    { "corp.toml": '[corp_rule_files]\nsigma = "pack.yaml"\n', "pack.yaml": "title: 3\n" },
    "pack.yaml",
  ],
  [
    "a resolver that is no address",
    { "corp.toml": set("network.dns_resolvers", ["192.0.2.1", "not-an-ip"]) },
    'DIR/corp.toml:2: network.dns_resolvers: "not-an-ip" is not the address of a DNS resolver',
  ],
  [
    "an override without an address",
    { "corp.toml": set("network.upstream_overrides", ["x"]) },
    'DIR/corp.toml:2: network.upstream_overrides: "x" is not of the form name=ip:port',
  ],
  [
    "a CA file that is not there",
    { "corp.toml": set("network.extra_ca_file", "/nowhere/ca.pem") },
    "DIR/corp.toml:2: network.extra_ca_file: there is no file /nowhere/ca.pem",
  ],
  [
    "prices that are not there",
    { "corp.toml": set("network.model_price_file", "/nowhere/prices.json") },
    "DIR/corp.toml:2: network.model_price_file: there is no price table at /nowhere/prices.json",
  ],
];

for (const [what, files, problem] of WRONG) {
  Deno.test(`corp: ${what} keeps the file from being in force`, () =>
    inHome(async ({ dir, file, write, store }) => {
      await write(files);
      const expected = problem.replaceAll("DIR", dir);
      const validation = await validateCorpFile(file, checkCorp);
      assertEquals(validation.ok, false);
      assertStringIncludes(validation.problems.join("\n"), expected);

      // Nothing good is known: all is locked, and no VM gets rules.
      const settings = await SettingsStore.open({
        home: { dir },
        corp: store,
        definitions: await loadDefinitions({ get: () => undefined }),
      });
      assertEquals([store.state.status, settings.resolved.leaves.every((leaf) => leaf.corp_locked)], [
        "closed",
        true,
      ]);
      const info = corpInfo(store);
      assertStringIncludes(info.error!, expected);
      assertStringIncludes(info.summary, "IS BROKEN");
      assertEquals((await assertRejects(() => corpLayer(store), SbxError)).code, "corp.closed");

      // With a good one before it, that stays.
      await write({ "corp.toml": GOOD + set("app.auto_update", true) });
      assertEquals((await store.load()).status, "ok");
      await write(files);
      await settings.reload();
      assertEquals(store.state.status, "last_good");
      assertEquals((await corpLayer(store)).rules.map(({ id }) => id), ["a"]);
      assertEquals(settings.resolved.byId.get("app.auto_update")?.corp_locked, true);
      assertStringIncludes(corpInfo(store).error!, expected);
    }));
}

Deno.test("corp: everything that is wrong is named at once, and what is right passes", () =>
  inHome(async ({ file, write, store }) => {
    await write({
      "corp.toml": GOOD.replace("host", "hst") + set("network.dns_resolvers", ["x"]) +
        set("network.upstream_overrides", ["y"]) + set("app.auto_update", 3),
    });
    assertEquals((await validateCorpFile(file, checkCorp)).problems.length, 4);
    await write({
      "corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n' +
        set("network.dns_resolvers", ["192.0.2.1"]) +
        set("network.upstream_overrides", ["a.example=127.0.0.1:8443"]) + set("network.extra_ca_file", ""),
      "rules.toml": GOOD,
    });
    assertEquals(await validateCorpFile(file, checkCorp), {
      ok: true,
      path: file,
      problems: [],
      warnings: [],
    });
    assertEquals((await store.load()).status, "ok");
  }));

Deno.test("corp: a rule file that is mended puts its corp.toml in force again, without a touch of that", () =>
  inHome(async ({ write, store }) => {
    await write({
      "corp.toml": '[corp_rule_files]\nenforcement = "rules.toml"\n',
      "rules.toml": GOOD.replace("host", "hst"),
    });
    assertEquals((await store.load()).status, "closed");
    const changed = Promise.withResolvers<void>();
    const late = setTimeout(() => changed.reject(new Error("nobody noticed")), 10_000);
    using _watch = watchCorp(store, () => {
      changed.resolve();
      return Promise.resolve();
    });
    await write({ "rules.toml": GOOD });
    await changed.promise;
    clearTimeout(late);
    assert(store.state.status === "ok");
  }));
