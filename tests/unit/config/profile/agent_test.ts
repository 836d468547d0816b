/** Profiles of agents: their files for a folder, and refusals. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import {
  agentFiles,
  hostServices,
  loadProfile,
  needsModel,
  parseProfile,
} from "../../../../lib/config/profile/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";
import { completeEvent } from "../../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../../lib/policy/mod.ts";
import type { Parsed } from "../../../helper/json.ts";
import { decided, http, rule } from "../../../helper/policy.ts";

const dns = (qname: string) =>
  completeEvent({
    schema_version: 1,
    common: { event_type: "dns.query" },
    dns: { request: { qname, qtype: "A", transport: "udp" } },
  });

const NOWHERE = { profilesDir: "/nonexistent" };
const LOCAL = "opencode-local";

Deno.test("opencode with a local model has opencode's image, no key, and each service of models", async () => {
  const [local, opencode] = await Promise.all([
    loadProfile(NOWHERE, LOCAL),
    loadProfile(NOWHERE, "opencode"),
  ]);
  assertEquals(opencode.agent!.local, LOCAL);
  assertEquals(local.packages, opencode.packages);
  assertEquals(local.credentials.providers, []);
  assertEquals(local.agent!.provider, undefined);
  assertEquals(hostServices(local.host!.services).map(({ name }) => name), [
    "ollama",
    "lmstudio",
    "llama-cpp",
    "vllm",
    "litellm",
  ]);
  assert(needsModel(local.agent!));
  const model = { name: 'qwen/"3"', url: "http://ollama.host.sbx:11434/v1" };
  const files = agentFiles(local.agent!, { place: "/root/{model}", model });
  const config = JSON.parse(files["/root/.config/opencode/opencode.json"]);
  assertEquals([config.model, config.small_model], Array(2).fill(`local/${model.name}`));
  assertEquals(config.provider.local.options.baseURL, model.url);
  assertEquals(Object.keys(config.provider.local.models), [model.name]);
});

Deno.test("opencode and kilo have models of their provider alone: as an editor's agent, opencode began with its maker's", async () => {
  for (const [id, provider] of [["opencode", "anthropic"], ["kilo", "anthropic"], [LOCAL, "local"]]) {
    const { agent } = await loadProfile(NOWHERE, id);
    const [config] = Object.entries(agent!.files).filter(([path]) => path.endsWith(".json"));
    assertEquals(JSON.parse(config[1]).enabled_providers, [provider], id);
  }
});

Deno.test("Codex trusts its folder", async () => {
  const { agent } = await loadProfile(NOWHERE, "codex");
  const place = '/root/a "quoted" folder';
  const text = agentFiles(agent!, { place })["/root/.codex/config.toml"];
  assertEquals(parseToml(text, "config.toml").value.projects, { [place]: { trust_level: "trusted" } });
});

Deno.test("Claude Code knows its folder and the end of its key's ref, and asks about neither", async () => {
  const { agent } = await loadProfile(NOWHERE, "claude");
  const ref = `credential:blake3:${"0".repeat(44)}0123456789abcdef0123`;
  const place = '/root/a "quoted" folder';
  const known = JSON.parse(agentFiles(agent!, { place, ref })["/root/.claude.json"]);
  assertEquals(known.customApiKeyResponses.approved, ["0123456789abcdef0123"]);
  assertEquals(known.projects, { [place]: { hasTrustDialogAccepted: true } });
});

/** Places of an agent with a login, and others at the same hosts. */
const LOGINS: Record<
  string,
  { reaches: [host: string, path: string][]; asks: [host: string, path: string][] }
> = {
  codex: {
    reaches: [["chatgpt.com", "/backend-api/codex/responses"], ["auth.openai.com", "/oauth/token"]],
    asks: [["chatgpt.com", "/share/x"], ["auth.openai.com", "/api/accounts/deviceauth/usercode"]],
  },
  gemini: {
    reaches: [
      ["cloudcode-pa.googleapis.com", "/v1internal:streamGenerateContent"],
      ["oauth2.googleapis.com", "/tokeninfo"],
      ["www.googleapis.com", "/oauth2/v2/userinfo"],
    ],
    asks: [["www.googleapis.com", "/upload/drive/v3/files"], ["accounts.google.com", "/o/oauth2/token"]],
  },
};
for (const [id, { reaches, asks }] of Object.entries(LOGINS)) {
  Deno.test(`${id} with a login of a subscription reaches what that needs, and asks for the rest`, async () => {
    const { rules } = await loadProfile(NOWHERE, id);
    const policy = compilePolicy(
      Object.entries(rules).map(([id, { action, match, priority = 10 }]) =>
        rule("profile", id, action, match, { priority })
      ),
    );
    const at = ([host, path]: [string, string]) => decided(policy, http({ host, path, method: "POST" }))[0];
    assertEquals(reaches.map(at), reaches.map(() => "allow"));
    assertEquals(asks.map(at), asks.map(() => "ask"));
    for (const [host] of reaches) assertEquals(decided(policy, dns(host))[0], "allow");
  });
}

Deno.test("files for a login take the place of those for a key, and an agent without them has the others", async () => {
  const filesOf = async (id: string, isSubscription: boolean) => {
    const { agent } = await loadProfile(NOWHERE, id);
    return agentFiles(agent!, { place: "/root/a", isSubscription });
  };
  const codex = async (isSubscription: boolean) =>
    parseToml((await filesOf("codex", isSubscription))["/root/.codex/config.toml"], "config.toml")
      .value as Parsed;
  const [key, login] = [await codex(false), await codex(true)];
  assertEquals(key.model_providers.sbx.env_key, "OPENAI_API_KEY");
  assertEquals(login.model_providers.sbx.env_key, undefined);
  assertEquals(login.model_providers.sbx.requires_openai_auth, true);
  assertEquals(login.model_providers.sbx.base_url, "https://chatgpt.com/backend-api/codex");
  assertEquals(login.projects, { "/root/a": { trust_level: "trusted" } });
  const gemini = async (isSubscription: boolean) =>
    JSON.parse((await filesOf("gemini", isSubscription))["/root/.gemini/settings.json"]).security.auth;
  assertEquals(await gemini(false), { selectedType: "gemini-api-key" });
  assertEquals(await gemini(true), { selectedType: "oauth-personal" });
  assertEquals(await filesOf("claude", true), await filesOf("claude", false));
});

const refusals: [string, string][] = [
  [
    "a file for a login outside its folder",
    '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\n[agent.subscription.files]\n"/a/../b" = ""\n',
  ],
  ["an agent without a task", '[agent]\ncommand = ["a"]\nheadless = ["a"]\n'],
  ["an agent without a program", '[agent]\ncommand = []\nheadless = ["{prompt}"]\n'],
  ["an unknown key", '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\nshell = true\n'],
  ["a relative file", '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\nfiles = { "x" = "" }\n'],
  [
    "a file outside its folder",
    '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\nfiles = { "/a/../b" = "" }\n',
  ],
  ["a model without a place for it", '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\nmodel = ["-m"]\n'],
  [
    "a pattern of conversations that is no path",
    '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\n' +
    '[agent.continue]\ncommand = ["a"]\nheadless = ["{prompt}"]\nconversations = "/root/$(id)"\n',
  ],
  ["a profile that is a path", '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\nlocal = "../x"\n'],
  [
    "a host that is a pattern",
    '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\nhosts = { models = ["*.example.com"] }\n',
  ],
  [
    "a provider that has no agents",
    '[agent]\ncommand = ["a"]\nheadless = ["{prompt}"]\nprovider = "github"\n',
  ],
];
for (const [what, text] of refusals) {
  Deno.test(`refused: ${what}`, () => {
    const minimal = `id = "p"\nname = "P"\ndescription = ""\nrevision = "1.0.0"\n${text}`;
    const error = assertThrows(
      () => parseProfile(parseToml(minimal, "f"), { id: "p", source: "user" }),
      SbxError,
    );
    assertEquals(error.code, "profile.invalid");
  });
}
