/** `sbx mcp login` with the real CLI, and a browser that follows its URL. */
import { limitChild } from "./child.ts";
import { browse } from "./oauth_server.ts";
import { fromRoot } from "./repo.ts";
import type { Ran, Sbx } from "./sbx.ts";

/** A profile `mine` with one MCP server, `tickets`. */
export const profileWith = (url: string) =>
  `id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n` +
  `[mcp.tickets]\nname = "Tickets"\nurl = "${url}"\n`;

/** Logs in at `tickets` as a person who allows everything. */
export async function loginWithCli(sbx: Sbx): Promise<Ran> {
  const child = limitChild(
    new Deno.Command(fromRoot("bin/sbx"), {
      args: ["mcp", "login", "tickets", "-p", "mine", "--json"],
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
    const url = /^http:\S+$/m.exec(stderr)?.[0];
    if (!url || isDone) continue;
    isDone = true;
    await browse(url);
  }
  const { code } = await child.status;
  return { code, stdout: await stdout, stderr };
}
