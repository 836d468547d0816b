/**
 * Conformance of the built-in profiles of agents: the facts of each hold under its own rules. Runs of the
 * published agents are in tests/agents.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { notesOf } from "../../../../cmd/sbx/start/agent_notes.ts";
import { withRules } from "../../../../scripts/profile_rules.ts";
import HOSTS from "../../../../scripts/profile_hosts.json" with { type: "json" };
import {
  type Agent,
  BUILTIN_PROFILES,
  modelWords,
  needsModel,
  parseProfile,
  type Profile,
} from "../../../../lib/config/profile/mod.ts";
import { DEFINITIONS } from "../../../../lib/credential/provider.ts";
import { BUILT_IN_PRICES } from "../../../../lib/network/model/price.ts";
import { completeEvent } from "../../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../../lib/policy/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";
import { decided, http, rule } from "../../../helper/policy.ts";

/** Agents that there are at least (`sbx agent list`). */
const NAMED = "claude cline cn codex copilot gemini kilo opencode opencode-local pi qwen".split(" ");
/** Agents whose conversations begin anew. */
const FORGETS = ["cline"];

const profiles = [...BUILTIN_PROFILES].map(([id, text]) =>
  parseProfile(parseToml(text, id), { id, source: "builtin" })
);
const agents = profiles.filter((profile): profile is Profile & { agent: Agent } => !!profile.agent);
const locked = profiles.find(({ id }) => id === "locked")!;

const dns = (qname: string) =>
  completeEvent({
    schema_version: 1,
    common: { event_type: "dns.query" },
    dns: { request: { qname, qtype: "A", transport: "udp" } },
  });

/** Decisions of a profile's rules. */
function decisions({ rules }: Profile) {
  const policy = compilePolicy(
    Object.entries(rules).map(([id, { action, match, priority = 10 }]) =>
      rule("profile", id, action, match, { priority })
    ),
  );
  return {
    on: (...events: Parameters<typeof http>) => decided(policy, http(...events))[0],
    lookup: (name: string) => decided(policy, dns(name))[0],
  };
}

Deno.test("the known agents are built in", () => {
  const ids = agents.map(({ id }) => id);
  assertEquals(NAMED.filter((id) => !ids.includes(id)), []);
});

for (const profile of [...agents, locked]) {
  Deno.test(`${profile.id} reads registries and repositories, and asks for the rest`, () => {
    const { on, lookup } = decisions(profile);
    const fetches = (service: string) => ({
      host: "github.com",
      method: "POST",
      git: { service, updates: [] },
    });
    assertEquals(on({ host: "registry.npmjs.org", method: "GET" }), "allow");
    assertEquals(on({ host: "registry.npmjs.org", method: "PUT" }), "ask");
    assertEquals(on(fetches("git-upload-pack")), "allow");
    assertEquals(on(fetches("git-receive-pack")), "ask");
    assertEquals(on({ host: "github.com", method: "GET", path: "/login" }), "ask");
    assertEquals(lookup("registry.npmjs.org"), "allow");
    assertEquals(lookup("secret.evil.example"), "ask");
    assertEquals(profile.credentials.accounts, "stored");
  });
}

for (const profile of agents) {
  const { id, agent, packages, credentials, host } = profile;
  const { models, own, login, reports } = agent.hosts;

  Deno.test(`${id}: its hosts are reached, its reports and other models are not`, () => {
    const { on, lookup } = decisions(profile);
    assert(models.length > 0, "no host of its models is known");
    for (const name of [...models, ...own]) {
      assertEquals([name, on({ host: name, method: "POST" }), lookup(name)], [name, "allow", "allow"]);
      assertEquals(on({ host: `evil.${name}.example`, method: "GET" }), "ask");
    }
    // Of the hosts of a login only its own paths are open.
    const logins = login.map((place) => place.split("/")[0]);
    for (const name of logins) {
      assertEquals([name, on({ host: name, method: "POST", path: "/elsewhere" }), lookup(name)], [
        name,
        "ask",
        "allow",
      ]);
    }
    const others = HOSTS.models.filter((name) => ![...models, ...own, ...logins].includes(name));
    for (const name of [...reports, ...others]) {
      assertEquals([name, on({ host: name, method: "POST" }), lookup(name)], [name, "block", "block"]);
    }
  });

  Deno.test(`${id}: its rules are written from its hosts`, () => {
    const text = BUILTIN_PROFILES.get(id)!;
    assertEquals(text, withRules(text), "deno run -A scripts/profile_rules.ts writes them");
  });

  Deno.test(`${id}: exact packages, and a form without a terminal, new and continued`, () => {
    assert(packages.npm.every((name) => /@\d+\.\d+\.\d+[\w.-]*$/.test(name)), packages.npm.join());
    assertEquals(agent.headless.filter((word) => word === "{prompt}").length, 1);
    if (!agent.continue) assertEquals(FORGETS.includes(id), true, "it takes up its last conversation");
    else {
      const { command, headless } = agent.continue;
      assert(command.length > 1, "it takes up its last conversation");
      assertEquals(headless.filter((word) => word === "{prompt}").length, 1);
    }
    const [[path, notes] = []] = Object.entries(notesOf(agent));
    assert(path?.startsWith("/root/") && notes, "the file of instructions is the guest user's");
    for (const word of ["sbx-ask", "sbx-mcp-server", "local__request_access"]) {
      assertStringIncludes(notes, word);
    }
  });

  Deno.test(`${id}: the key is its provider's, and stands nowhere in the profile`, () => {
    assertEquals(credentials.providers, agent.provider ? [agent.provider] : []);
    if (!agent.provider) return assert(host!.services.length > 0, "its models are services of the host");
    const provider = DEFINITIONS.find(({ id }) => id === agent.provider)!;
    assertEquals(models.filter((name) => !provider.hosts.includes(name)), [], "the key goes to these hosts");
    // The broker gives the guest a ref by the provider's variables; a profile that set one would hide it.
    assertEquals(Object.keys(agent.env).filter((name) => provider.env?.includes(name)), []);
  });

  Deno.test(`${id}: every model that it starts with has a price of its own`, () => {
    if (!agent.provider) return assert(needsModel(agent), "a person names the model");
    assert(agent.default_models.length > 0, "its models are not known");
    for (const model of agent.default_models) {
      const cost = BUILT_IN_PRICES.cost(agent.provider, model, { input: 1000, output: 1000 });
      assert(cost && cost.micros > 0 && cost.basis === undefined, `${model} has no price`);
    }
    const words = modelWords(agent, "m$&1");
    assert(!words || words.some((word) => word.includes("m$&1")), "the name of a model stays as it is");
    assertEquals(needsModel(agent), false);
  });
}
