/** Commands on recorded or written events take corp's rules in force, though no service runs. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { web } from "../helper/recording.ts";
import { fromRoot } from "../helper/repo.ts";

const CORP = `[corp.rules.no-corp]
action = "block"
priority = -100
match = 'http.request.path == "/corp"'
`;

Deno.test("corp's rules hold in the lab and in tests of a profile", async () => {
  const dir = await Deno.makeTempDir();
  const at = (name: string) => join(dir, name);
  const run = async (...args: string[]) => {
    const env = { SBX_HOME: at("home"), SBX_CORP_CONFIG: at("corp.toml"), NO_COLOR: "1" };
    const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx"), { args, env });
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  };
  try {
    const { decision: _, ...asked } = web("https://a.example/corp");
    const event = { ...asked, decision: "block", rule_id: "no-corp" };
    await Deno.writeTextFile(at("corp.toml"), CORP);
    await Deno.writeTextFile(at("rules.toml"), "");
    await Deno.writeTextFile(at("events.jsonl"), `${JSON.stringify(event)}\n`);
    const lab = await run("lab", at("events.jsonl"), "--rules", at("rules.toml"), "--json");
    assertEquals([lab.code, JSON.parse(lab.stdout).policy.changes], [0, []], lab.stderr);
    await Deno.writeTextFile(at("other.toml"), CORP.replace("/corp", "/other"));
    const other = await run("lab", at("events.jsonl"), "--corp", at("other.toml"), "--json");
    const changes = [{ from: "block", to: "allow", count: 1 }];
    assertEquals([other.code, JSON.parse(other.stdout).policy.changes], [0, changes], other.stderr);

    const test = { name: "corp", when: asked, then: { decision: "block", rule: "no-corp" } };
    await Deno.writeTextFile(at("tests.jsonl"), `${JSON.stringify(test)}\n`);
    const tested = await run("policy", "test", at("tests.jsonl"), "--profile", "code");
    assertEquals([tested.code, tested.stdout], [0, "1 passed, 0 failed\n"], tested.stderr);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
