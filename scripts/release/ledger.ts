import { createHash } from "node:crypto";
import { join } from "node:path";
import { text } from "../command.ts";

const TOOLS = [["deno", "--version"], ["dpkg-deb", "--version"], ["mmdebstrap", "--version"], [
  "mkfs.erofs",
  "-V",
]];

/**
 * Writes `ledger-<arch>.json`: the tools of an architecture's build. Evidence for people who investigate a
 * build, and no inventory of a release (docs/design/contracts/10-release.md §10, "OBOM descriptor").
 */
export async function writeLedger(
  work: string,
  arch: string,
  { commit, started }: { commit: string; started: Date },
): Promise<void> {
  const tools = await Promise.all(TOOLS.map(async (argv) => {
    const command = argv[0] === "deno" ? [Deno.execPath(), ...argv.slice(1)] : argv;
    const said = await text(command).catch((error) => `${error}`);
    return [argv[0], said.trim().split("\n")[0]];
  }));
  const runtime = Deno.env.get("DENORT_BIN");
  const ledger = {
    schema: "sbx.build_ledger.v1",
    arch,
    commit,
    started_at: started.toISOString(),
    finished_at: new Date().toISOString(),
    host: { os: Deno.osRelease(), arch: Deno.build.arch, cpus: navigator.hardwareConcurrency },
    tools: Object.fromEntries(tools),
    ...(runtime && {
      runtime: {
        path: runtime,
        sha256: createHash("sha256").update(await Deno.readFile(runtime)).digest("hex"),
      },
    }),
  };
  await Deno.writeTextFile(join(work, `ledger-${arch}.json`), JSON.stringify(ledger, null, 2) + "\n");
}
