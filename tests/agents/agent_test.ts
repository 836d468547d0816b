/** Published agents in real VMs: each mends a program in a repository, and commits. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { testProvider } from "../helper/identity_provider.ts";
import { Pty } from "../helper/pty.ts";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";
import { logIn, useProvider } from "../helper/subscription_cli.ts";
import { TestUpstreams } from "../helper/upstream.ts";
import { loadProfile } from "../../lib/config/profile/mod.ts";
import { ANTHROPIC, GOOGLE, HOSTS, makeRepository, OPENAI, TASK } from "./agents.ts";
import { answerAsLocal, answerAsProvider, DONE } from "./provider.ts";

interface TestedAgent {
  id: string;
  provider: string;
  secret: string;
  /** on its screen when it takes a task */
  ready: RegExp;
  /** its conversations begin anew */
  forgets?: boolean;
}

const AGENTS: TestedAgent[] = [
  { id: "claude", ...ANTHROPIC, ready: /❯[^]*bypass permissions on/ },
  { id: "codex", ...OPENAI, ready: /Ask Codex to do anything/ },
  { id: "opencode", ...ANTHROPIC, ready: /Ask anything/ },
  { id: "gemini", ...GOOGLE, ready: /Type your message/ },
  { id: "copilot", ...ANTHROPIC, ready: /❯[^]*claude-sonnet-5/ },
  { id: "qwen", ...OPENAI, ready: /Type your message/ },
  { id: "pi", ...ANTHROPIC, ready: /claude-opus-5-5/ },
  { id: "cn", ...ANTHROPIC, ready: /Ask anything/ },
  { id: "cline", ...ANTHROPIC, ready: /Auto-approve all enabled/, forgets: true },
  { id: "kilo", ...ANTHROPIC, ready: /ctrl\+p commands/ },
];
for (const { id, provider, secret, ready, forgets } of AGENTS) {
  Deno.test(`${id} mends a program with a key that it never has`, async () => {
    const dir = await Deno.makeTempDir();
    const { agent } = await loadProfile({ profilesDir: dir }, id);
    const { reports } = agent!.hosts;
    // Reports would arrive if its rules let them.
    const world = await TestUpstreams.make([...HOSTS, ...reports], answerAsProvider);
    const sbx = await Sbx.make();
    try {
      const repository = await makeRepository(dir);
      await sbx.ok("start");
      await sbx.api("PATCH", "/settings/edit", {
        "network.upstream_overrides": world.overrides,
        "network.extra_ca_file": world.caFile,
      });
      const refused = await sbx.cli("agent", id, repository, "-p", "Mend it");
      assertEquals(refused.code, 125);
      assertStringIncludes(refused.stderr, `sbx credentials add ${provider}`);
      await sbx.api("POST", "/credentials/add", { provider, secret });

      const ran = await sbx.cli(
        "agent",
        id,
        repository,
        "-p",
        TASK,
        "--json",
      );
      const log = `${ran.stdout}${ran.stderr}\n${
        world.received.map(({ method, url }) => `${method} ${url}`).join("\n")
      }`;
      assertEquals(ran.code, 0, log);
      const report = JSON.parse(ran.stdout.slice(ran.stdout.lastIndexOf('{\n  "vm"')));
      assertEquals(report.changes, { files: 1, added: 1, removed: 1, commits: 1 }, log);
      assert(report.cost.calls >= 2, log);
      // Every model that the agent starts with is in the table, so that a budget in dollars counts it.
      assertEquals([report.cost.unpriced_calls, report.cost.estimated_calls], [0, 0], log);
      assert(report.cost.usd > 0, log);

      const sent = world.received.filter(({ headers }) =>
        Object.values(headers).some((text) => text.includes(secret))
      );
      assert(sent.length >= 2, `the provider got the key\n${log}`);
      const shown = secret.slice(8);
      const inGuest = await sbx.cli(
        "exec",
        report.vm,
        "-c",
        `env; grep -rls ${shown} /root /tmp /etc 2>/dev/null`,
      );
      assert(!inGuest.stdout.includes(shown), "the guest never had it");
      assert(!/^\/(root|tmp|etc)\//m.test(inGuest.stdout), inGuest.stdout);

      const asked = (await sbx.ok("events", report.vm, "--jsonl")).split("\n").filter((line) =>
        line.includes("everything-else")
      );
      assertEquals(asked, [], "its hosts are all known");
      const reported = world.received.filter(({ url }) => reports.includes(new URL(url).hostname));
      assertEquals(reported.map(({ url }) => url), [], "no report left the host");

      await sbx.ok("pull", report.vm, "--branch", "work");
      // Its conversation is the same one: the provider gets the first task again.
      const before = world.received.length;
      const on = await sbx.cli("agent", id, repository, "--continue", "-p", "Now rest.", "--json");
      assertEquals(on.code, 0, `${on.stdout}${on.stderr}`);
      assertEquals(JSON.parse(on.stdout.slice(on.stdout.lastIndexOf('{\n  "vm"'))).vm, report.vm);
      const later = world.received.slice(before).map(({ body }) => body);
      assert(
        later.some((body) => body.includes("Now rest.") && (forgets || body.includes(TASK))),
        later.join("\n"),
      );
    } finally {
      await sbx.dispose();
      await world.close();
      await Deno.remove(dir, { recursive: true });
    }
  });

  Deno.test(`${id} on a terminal asks nothing before its first edit, and neither does sbx`, async () => {
    const dir = await Deno.makeTempDir();
    const world = await TestUpstreams.make(HOSTS, answerAsProvider);
    const sbx = await Sbx.make();
    try {
      const repository = await makeRepository(dir);
      await sbx.ok("start");
      await sbx.api("PATCH", "/settings/edit", {
        "network.upstream_overrides": world.overrides,
        "network.extra_ca_file": world.caFile,
      });
      await sbx.api("POST", "/credentials/add", { provider, secret });
      await using terminal = new Pty([fromRoot("bin/sbx"), "agent", id, "."], {
        cwd: repository,
        env: sbx.env,
      });
      await terminal.shows(`${id} takes a task`, ready);
      await terminal.type(TASK);
      await terminal.shows("the task is typed", /commit\./);
      terminal.press("\r");
      await terminal.shows("the work is done", new RegExp(DONE.replaceAll(".", "\\.")));
      const [{ name }] = JSON.parse(await sbx.ok("list", "--json")).vms;
      const log = await sbx.ok("exec", name, "--", "git", "-C", "/root/calc", "log", "--format=%s");
      assertEquals(log.split("\n")[0], "Add, do not subtract", terminal.text);
      const asked = (await sbx.ok("events", name, "--jsonl")).split("\n").filter((line) =>
        line.includes("everything-else")
      );
      assertEquals(asked, [], "hosts of an agent's start are no ask");
    } finally {
      await sbx.dispose();
      await world.close();
      await Deno.remove(dir, { recursive: true });
    }
  });
}

/** Agents with a login of a subscription, and the host of their models. */
const LOGINS: [login: string, host: string][] = [
  ["codex", "chatgpt.com"],
  ["gemini", "cloudcode-pa.googleapis.com"],
];
for (const [login, host] of LOGINS) {
  Deno.test(`${login} mends a program with a login of a subscription, whose tokens it never has`, async () => {
    const dir = await Deno.makeTempDir();
    const tokens: string[] = [];
    const asked: string[] = [];
    await using provider = await testProvider(login, async (request) => {
      const { hostname, pathname } = new URL(request.url);
      asked.push(`${hostname}${pathname}`);
      if (hostname === host) tokens.push(request.headers.get("authorization") ?? "");
      return answerAsProvider(request, await request.text());
    });
    const sbx = await Sbx.make();
    try {
      const repository = await makeRepository(dir);
      await useProvider(sbx, provider);
      await sbx.ok("start");
      await logIn(sbx, provider);
      const ran = await sbx.cli("agent", login, repository, "-p", TASK, "--json");
      const log = `${ran.stdout}${ran.stderr}\n${asked.join("\n")}`;
      assertEquals(ran.code, 0, log);
      const report = JSON.parse(ran.stdout.slice(ran.stdout.lastIndexOf('{\n  "vm"')));
      assertEquals(report.changes, { files: 1, added: 1, removed: 1, commits: 1 }, log);
      assert(report.cost.calls >= 2, log);
      // Google names a model of subscriptions that has no price of its own: its family's counts.
      assertEquals(report.cost.unpriced_calls, 0, log);
      const [token] = tokens;
      assert(tokens.length >= 2 && tokens.every((each) => each === token), log);
      assert(/^Bearer [\w-]{40,}$/.test(token), log);

      const shown = token.slice("Bearer ".length);
      const inGuest = await sbx.cli(
        "exec",
        report.vm,
        "-c",
        `env; grep -rls ${shown} /root /tmp /etc 2>/dev/null`,
      );
      assert(!inGuest.stdout.includes(shown) && !/^\/(root|tmp|etc)\//m.test(inGuest.stdout), inGuest.stdout);
      const events = (await sbx.ok("events", report.vm, "--jsonl")).split("\n");
      assertEquals(events.filter((line) => line.includes("everything-else")), [], "its hosts are no ask");
      assertEquals(events.filter((line) => line.includes(shown)), []);
      assertEquals(provider.state.grants, ["authorization_code"]);
    } finally {
      await sbx.dispose();
      await Deno.remove(dir, { recursive: true });
    }
  });
}

Deno.test("opencode mends a program with a model of this host, and reaches no other one", async () => {
  const dir = await Deno.makeTempDir();
  const models = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answerAsLocal);
  const sbx = await Sbx.make();
  try {
    const repository = await makeRepository(dir);
    await sbx.ok("start");
    // A port that is free here.
    await sbx.ok("profile", "copy", "opencode-local", "mine");
    const path = join(sbx.home, "profiles/mine/profile.toml");
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, text.replace('["ollama"', `["ollama:${models.addr.port}"`));
    const ran = await sbx.cli("agent", "mine", repository, "-m", "ollama/qwen3-coder", "-p", TASK, "--json");
    const log = `${ran.stdout}${ran.stderr}`;
    assertEquals(ran.code, 0, log);
    const report = JSON.parse(ran.stdout.slice(ran.stdout.lastIndexOf('{\n  "vm"')));
    assertEquals(report.changes, { files: 1, added: 1, removed: 1, commits: 1 }, log);
    assert(report.cost.calls >= 2, log);
    const { events } = JSON.parse(await sbx.ok("events", report.vm, "--json"));
    const hosts: string[] = events.flatMap((
      { http, dns }: { http?: { request: { host: string } }; dns?: { request: { qname: string } } },
    ) => [http?.request.host, dns?.request.qname].filter((host) => host !== undefined));
    // It looks for its own plugin package in the registry.
    assertEquals([...new Set(hosts)].filter((host) => host !== "registry.npmjs.org"), ["ollama.host.sbx"]);
  } finally {
    await sbx.dispose();
    await models.shutdown();
    await Deno.remove(dir, { recursive: true });
  }
});
