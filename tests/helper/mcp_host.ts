/** sbx-mcp as an agent starts it, with the SDK's client on its standard input and output. */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/client/stdio"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { fromRoot } from "./repo.ts";
import { Sbx } from "./sbx.ts";

/** A home without images: everything works in it but the boot of a VM. */
export async function emptyHome(): Promise<Sbx> {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const assets = `${home}/assets`;
  await Deno.mkdir(assets);
  await Deno.writeTextFile(`${assets}/manifest.json`, "{}");
  return await Sbx.make({ home, assets });
}

/** A client of `sbx-mcp` in a home. */
export async function hostClient(sbx: Sbx): Promise<Client> {
  const client = new Client({ name: "agent", version: "1.0.0" });
  const env = { ...sbx.env, PATH: Deno.env.get("PATH")!, HOME: Deno.env.get("HOME")! };
  await client.connect(
    new StdioClientTransport({ command: fromRoot("bin/sbx-mcp"), env, stderr: "inherit" }),
  );
  return client;
}
