/**
 * A cluster of Slurm on this machine: munge, a controller and two nodes on loopback, all without root.
 * Debian's packages slurmctld, slurmd, slurm-client and munge (scripts/deps.sh with SLURM=1).
 */
import { join } from "node:path";
import { eventually } from "../helper/sbx.ts";
import { limitChild, runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

/** Time limit of the cluster and of one command in `ms`. */
const LIMIT_MS = 1_800_000;
/** User of everything where this runs as root: Slurm and sbx need no right. */
const NOBODY = 65534;
/** Subordinate ids of that user, as other users have them: the workspace of a VM is shared with them. */
const SUBORDINATE = "3000000000-3000065535";

/** Unused ports of this machine. */
function freePorts(count: number): number[] {
  const listeners = Array.from({ length: count }, () => Deno.listen({ hostname: "127.0.0.1", port: 0 }));
  const ports = listeners.map(({ addr }) => (addr as Deno.NetAddr).port);
  for (const listener of listeners) listener.close();
  return ports;
}

export class Cluster implements AsyncDisposable {
  readonly dir: string;
  readonly #children: Deno.ChildProcess[] = [];

  private constructor(dir: string) {
    this.dir = dir;
  }

  /** Starts it, in a folder that its user owns. */
  static async start(): Promise<Cluster> {
    const cluster = new Cluster(await Deno.makeTempDir({ prefix: "sbx-slurm-" }));
    try {
      await cluster.#start();
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { dir } = this;
    await Deno.chmod(dir, 0o755);
    await Deno.mkdir(join(dir, "state"));
    const key = join(dir, "munge.key");
    await Deno.writeFile(key, crypto.getRandomValues(new Uint8Array(1024)), { mode: 0o400 });
    const [controller, ...nodes] = freePorts(3);
    const user = (await this.run(["id", "-un"])).stdout.trim();
    const nodeLines = nodes.map((port, at) =>
      `NodeName=sbx${at + 1} NodeHostname=localhost NodeAddr=127.0.0.1 Port=${port} CPUs=4 RealMemory=4096`
    );
    await Deno.writeTextFile(
      join(dir, "slurm.conf"),
      [
        "ClusterName=sbx",
        "SlurmctldHost=localhost(127.0.0.1)",
        `SlurmctldPort=${controller}`,
        `SlurmUser=${user}`,
        `SlurmdUser=${user}`,
        "AuthType=auth/munge",
        "CryptoType=crypto/munge",
        `AuthInfo=socket=${dir}/munge.sock`,
        `StateSaveLocation=${dir}/state`,
        `SlurmdSpoolDir=${dir}/spool-%n`,
        `SlurmctldPidFile=${dir}/slurmctld.pid`,
        `SlurmdPidFile=${dir}/slurmd-%n.pid`,
        `SlurmctldLogFile=${dir}/slurmctld.log`,
        `SlurmdLogFile=${dir}/slurmd-%n.log`,
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_CPU_Memory",
        // A machine that was just busy is not taken out.
        "ReturnToService=2",
        // Nodes have the processors that are written here, also on a machine with fewer.
        "SlurmdParameters=config_overrides",
        ...nodeLines,
        "PartitionName=vms Nodes=ALL Default=YES MaxTime=60 State=UP",
        "",
      ].join("\n"),
    );
    if (Deno.uid() === 0) {
      await runChild("chown", { args: ["-R", `${NOBODY}:${NOBODY}`, dir] });
      await subordinate("add");
    }
    const path = (name: string) => join(dir, name);
    this.#spawn("munged", [
      "--foreground",
      ...["--key-file", key, "--socket", path("munge.sock"), "--pid-file", path("munged.pid")],
      ...["--log-file", path("munged.log"), "--seed-file", path("munged.seed")],
    ]);
    await eventually("munge is there", () => Deno.stat(path("munge.sock")).then(() => true, () => false));
    this.#spawn("slurmctld", ["-D", "-f", path("slurm.conf")]);
    for (const at of nodes.keys()) {
      this.#spawn("slurmd", ["-D", "-f", path("slurm.conf"), "-N", `sbx${at + 1}`]);
    }
    await eventually("both nodes are idle", async () => {
      const { stdout } = await this.run(["sinfo", "-h", "-N", "-o", "%T"]);
      return stdout.trim().split("\n").filter((state) => state === "idle").length === nodes.length;
    });
  }

  #as(): [program: string, args: string[]] {
    return Deno.uid() === 0
      ? ["setpriv", [
        "--reuid",
        `${NOBODY}`,
        "--regid",
        `${NOBODY}`,
        "--clear-groups",
        "--",
      ]]
      : ["env", []];
  }

  #spawn(program: string, args: string[]): void {
    const [as, before] = this.#as();
    const child = new Deno.Command(as, {
      args: [...before, program, ...args],
      cwd: this.dir,
      env: { SLURM_CONF: join(this.dir, "slurm.conf") },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    this.#children.push(limitChild(child, LIMIT_MS));
  }

  /** Runs a program as the cluster's user. */
  async run(
    command: string[],
    env: Record<string, string> = {},
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const [as, before] = this.#as();
    const { code, stdout, stderr } = await runChild(as, {
      args: [...before, ...command],
      cwd: this.dir,
      clearEnv: true,
      env: {
        PATH: `${fromRoot("bin")}:${Deno.env.get("PATH")}`,
        HOME: this.dir,
        SLURM_CONF: join(this.dir, "slurm.conf"),
        NO_COLOR: "1",
        ...env,
      },
    }, LIMIT_MS);
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, stdout: text(stdout), stderr: text(stderr) };
  }

  /** Puts files where the cluster's user owns them. @returns the folder */
  async place(name: string, files: string[] = []): Promise<string> {
    const path = join(this.dir, name);
    await Deno.mkdir(path, { recursive: true });
    for (const file of files) await runChild("cp", { args: ["--reflink=auto", file, path] });
    if (Deno.uid() === 0) await runChild("chown", { args: ["-R", `${NOBODY}:${NOBODY}`, path] });
    return path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children.reverse()) {
      try {
        child.kill("SIGTERM");
      } catch {
        // It has ended.
      }
      await child.status;
    }
    if (Deno.uid() === 0) await subordinate("del");
    await Deno.remove(this.dir, { recursive: true });
  }
}

async function subordinate(change: "add" | "del"): Promise<void> {
  const args = ["uids", "gids"].flatMap((kind) => [`--${change}-sub${kind}`, SUBORDINATE]);
  const { code, stderr } = await runChild("usermod", { args: [...args, "nobody"] });
  if (code !== 0) throw new Error(`usermod: ${new TextDecoder().decode(stderr)}`);
}
