/** A fleet of one machine for tests of enrolment by root. */
import { join } from "node:path";
import type { CorpStore } from "../../lib/config/corp/mod.ts";
import { ensureHomeProof } from "../../lib/fleet/enrolment/mod.ts";
import { serveFleet } from "../../lib/fleet/receive/mod.ts";
import { openCorp } from "../../lib/home/mod.ts";
import { openCa } from "../../lib/network/ca/mod.ts";
import { ensureSigningKey } from "../../lib/release/signing/mod.ts";
import { runChild } from "./child.ts";
import { fromRoot } from "./repo.ts";

interface AdminOptions {
  home?: string;
  /** variables of the call, such as the one that names a TPM */
  tpm?: Record<string, string>;
}

/** A collector on loopback, and one machine whose corp.toml names it. */
export class World implements AsyncDisposable {
  private constructor(
    readonly dir: string,
    readonly store: string,
    readonly server: Awaited<ReturnType<typeof serveFleet>>,
  ) {}

  static async start(): Promise<World> {
    const dir = await Deno.makeTempDir();
    const ca = await openCa({ dir });
    const store = join(dir, "store");
    const tls = await ca.leaf("localhost");
    const server = await serveFleet({ dir: store, hostname: "127.0.0.1", port: 0, tls });
    const world = new World(dir, store, server);
    await Deno.mkdir(join(dir, "etc"));
    await Deno.writeTextFile(
      world.corpPath,
      `[fleet]\nurl = "https://localhost:${server.addr.port}"\nrequired = true\nmax_lag_hours = 24\n` +
        `[settings."network.extra_ca_file"]\nvalue = "${join(dir, "ca/ca.crt")}"\n`,
    );
    return world;
  }

  get corpPath(): string {
    return join(this.dir, "etc/corp.toml");
  }

  async home(name: string) {
    const home = { dir: join(this.dir, name) };
    const key = await ensureSigningKey(home);
    // As its service does.
    await ensureHomeProof(home, key);
    return { home, key };
  }

  /** Runs `sbx-admin fleet`, without the TPM of the machine that runs the tests unless `tpm` is one. */
  async admin(args: string[], stdin = "", { home = "root", tpm = {} }: AdminOptions = {}) {
    const input = join(this.dir, "input.txt");
    await Deno.writeTextFile(input, stdin);
    const { code, stdout, stderr } = await runChild("sh", {
      args: [
        "-c",
        'p=$0; i=$1; shift; exec "$p" fleet "$@" < "$i"',
        fromRoot("bin/sbx-admin"),
        input,
        ...args,
        ...(args[0] === "enrol" && tpm.TPM2TOOLS_TCTI === undefined && !args.includes("--tpm")
          ? ["--tpm", "off"]
          : []),
      ],
      env: { SBX_HOME: join(this.dir, home), SBX_CORP_CONFIG: this.corpPath, NO_COLOR: "1", ...tpm },
    });
    return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
  }

  async corp(home: { dir: string }): Promise<CorpStore> {
    const before = Deno.env.get("SBX_CORP_CONFIG");
    Deno.env.set("SBX_CORP_CONFIG", this.corpPath);
    try {
      const corp = openCorp(home as Parameters<typeof openCorp>[0]);
      await corp.load();
      return corp;
    } finally {
      if (before === undefined) Deno.env.delete("SBX_CORP_CONFIG");
      else Deno.env.set("SBX_CORP_CONFIG", before);
    }
  }

  async [Symbol.asyncDispose]() {
    await this.server.shutdown();
    await Deno.remove(this.dir, { recursive: true });
  }
}
