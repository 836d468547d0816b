/** `sbx login` of a person whose browser does what the provider's pages say. */
import { assertEquals } from "@std/assert";
import { limitChild } from "./child.ts";
import type { TestProvider } from "./identity_provider.ts";
import { fromRoot } from "./repo.ts";
import type { Sbx } from "./sbx.ts";

/** Leads a service, before its start, to a provider on loopback. */
export async function useProvider(sbx: Sbx, { proxy, caFile, overrides }: TestProvider): Promise<void> {
  await sbx.ok("settings", "set", "network.upstream_proxy", proxy.url);
  await sbx.ok("settings", "set", "network.no_proxy", "127.0.0.0/8");
  await sbx.ok("settings", "set", "network.extra_ca_file", caFile);
  await sbx.ok("settings", "set", "network.upstream_overrides", overrides);
}

/** Logs in at a provider. @returns the output of the command */
export async function logIn(sbx: Sbx, { browse, facts }: TestProvider): Promise<string> {
  const child = limitChild(
    new Deno.Command(fromRoot("bin/sbx"), {
      args: ["login", facts.login],
      env: sbx.env,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn(),
  );
  const stdout = new Response(child.stdout).text();
  let stderr = "";
  let isDone = false;
  for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
    stderr += text;
    const url = /^https:\S+$/m.exec(stderr)?.[0];
    if (!url || isDone) continue;
    isDone = true;
    assertEquals((await browse(url)).status, 200);
  }
  assertEquals((await child.status).code, 0, stderr);
  return await stdout;
}
