/** `sbx-admin users`: processes of the users of this machine, for root. */
import { join } from "node:path";
import { z } from "zod";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { asSbxError, ifFound, ignore, SbxError } from "../../lib/base/error/mod.ts";
import { writeAtomic } from "../../lib/base/home/mod.ts";
import { joinMetrics, type ServiceMetrics } from "../../lib/base/metrics/mod.ts";
import { note, plain, print, printJson } from "../../lib/base/print/mod.ts";
import {
  type HomeProcesses,
  programProcesses,
  replacedProcesses,
  runningProgram,
} from "../../lib/base/process/mod.ts";
import { compareSemVer, isSemVer } from "../../lib/base/semver/mod.ts";
import { limitedOutput } from "../../lib/base/spawn/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import { timeLimit } from "../../lib/base/time/mod.ts";
import { findUser } from "../../lib/base/user/mod.ts";
import { programPath } from "../../lib/publish/update/program/mod.ts";

/** Longest time for one user's processes, in `ms`: VMs are suspended and resumed. */
const RESTART_MS = timeLimit(600_000);
/** Most `bytes` that one user's restart may print. */
const OUTPUT_MAX = 1024 * 1024;
/** Most homes of a user whose processes are restarted: a user can have processes name any number. */
const HOMES_MAX = 16;
/** Longest time for the metrics of one user, in `ms`: of all homes, so that no user delays the others'. */
const METRICS_MS = timeLimit(30_000);
/** Longest time for the version of one process, in `ms`. */
const VERSION_MS = timeLimit(30_000);
/** Largest program that is asked for its version, in `bytes`. */
const PROGRAM_BYTES_MAX = 512 * 1024 * 1024;
/** Metric that is 1 for a service that answers, and 0 for another. */
const UP = "sbx_user_service_up";
/** Most of a problem that is shown, in characters: it comes from a process of the user. */
const PROBLEM_MAX = 500;

/** Output of `sbx update restart --json`. */
const Answer = z.object({
  restarted: z.array(z.string()),
  left: z.array(z.object({ vm: z.string(), why: z.string() })),
});
const Failure = z.object({ error: z.object({ message: z.string() }) });

interface User {
  name: string;
  uid: number;
  home: string;
}

interface Outcome {
  user: string;
  home?: string;
  pids: number[];
  restarted: string[];
  left: string[];
}

const restart: Command = {
  name: "users restart",
  usage: "[--user NAME]... [--only-older-than VERSION] [--stop] [--dry-run] [--json]",
  summary: "restart processes of all users that still run a replaced program",
  notes: [
    "Run it as root after an upgrade. Each user's service, gateway and VMs are restarted as that user, as sbx update restart does.",
    "VMs are suspended and resumed where this host can do so. Others stay and are named, with the exit code 1, or are restarted with --stop, which ends their programs.",
  ],
  options: [
    { name: "user", value: "NAME", many: true, about: "this user; default all" },
    {
      name: "only-older-than",
      value: "VERSION",
      about: "only homes with a process of an older sbx, such as one before a security fix",
    },
    { name: "stop", about: "also stop and start VMs that cannot be suspended" },
    { name: "dry-run", about: "list them, and restart nothing" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 0 },
  examples: [
    "sbx-admin users restart --dry-run",
    "sbx-admin users restart --only-older-than 1.4.2 --stop",
  ],
  run,
};

const metrics: Command = {
  name: "users metrics",
  usage: "[--user NAME]... [--out FILE]",
  summary: "metrics of the services of all users, as Prometheus reads them",
  notes: [
    "Run it as root. Each sample has the label user, and home where that is not the user's own; sbx_user_service_up is 0 for a service that does not answer.",
    "--out replaces FILE at once, e.g. in the folder of node_exporter's textfile collector. No service is started.",
  ],
  options: [
    { name: "user", value: "NAME", many: true, about: "this user; default all" },
    { name: "out", value: "FILE", about: "write them to a file, which everybody can read" },
  ],
  words: { min: 0, max: 0 },
  examples: ["sbx-admin users metrics --out /var/lib/prometheus/node-exporter/sbx.prom"],
  run: showMetrics,
};

export const group: CommandGroup = {
  name: "users",
  summary: "processes of the users of this machine",
  subcommands: [restart, metrics],
};

async function run(args: Arguments): Promise<number> {
  requireRoot("restart", "sbx update restart restarts your own");
  const program = await programPath();
  const wanted = await wantedUsers(args);
  const outcomes: Outcome[] = [];
  const homes = new Map<number, number>();
  const minimum = minimumOf(args);
  for (const { uid, home, pids } of await replacedProcesses(program)) {
    if (wanted.size > 0 && !wanted.has(uid)) continue;
    const user = await findUser(uid);
    if (minimum !== undefined && user && !await hasOlder(user, pids, minimum)) continue;
    const isOwn = home === undefined || home === `${user?.home}/.sbx`;
    const place = { user: user?.name ?? `uid ${uid}`, ...(!isOwn && { home }), pids };
    if (args.has("dry-run")) outcomes.push({ ...place, restarted: [], left: [] });
    else if (!user) {
      outcomes.push({
        ...place,
        restarted: [],
        left: ["this machine has no such user, as whom nothing can be run"],
      });
    } else if (homes.set(uid, (homes.get(uid) ?? 0) + 1).get(uid)! > HOMES_MAX) {
      outcomes.push({
        ...place,
        restarted: [],
        left: [`not tried: the user has more than ${HOMES_MAX} homes`],
      });
    } else {
      if (!args.has("json")) note(`sbx-admin: restarting ${user.name}'s`);
      outcomes.push({ ...place, ...await restartAs(user, program, home, args.has("stop")) });
    }
  }
  if (args.has("json")) await printJson({ users: outcomes });
  else await show(outcomes, args.has("dry-run"));
  return outcomes.some(({ left }) => left.length > 0) ? 1 : 0;
}

function requireRoot(purpose: string, own: string): void {
  if (Deno.uid() === 0) return;
  throw new SbxError("users.denied", `processes of other users are root's to ${purpose}`, {
    hint: `run it with sudo; ${own}`,
  });
}

function minimumOf(args: Arguments): string | undefined {
  const version = args.text("only-older-than");
  if (version === undefined || isSemVer(version)) return version;
  throw new SbxError("users.version_invalid", `"${plain(version)}" is not a version of sbx`, {
    hint: "write the first version that has the fix, such as 1.4.2",
  });
}

/**
 * True if one of the processes runs a program of an earlier version. The program, which is no longer a file,
 * is asked as the user: it may be a user's own under that name. One that does not answer counts as older.
 */
export async function hasOlder(user: User, pids: readonly number[], minimum: string): Promise<boolean> {
  const known = new Set<string>();
  for (const pid of pids) {
    const { dev, ino } = await Deno.stat(runningProgram(pid)).catch(() => ({ dev: 0, ino: pid }));
    if (known.has(`${dev} ${ino}`)) continue;
    known.add(`${dev} ${ino}`);
    const version = await versionOf(user, pid).catch(ignore("it counts as older"));
    if (version === undefined || !isSemVer(version) || compareSemVer(version, minimum) < 0) return true;
  }
  return false;
}

/**
 * Version of the program that a process runs. A compiled one reads its own file as it starts: one whose file
 * is gone runs from a copy.
 */
async function versionOf(user: User, pid: number): Promise<string | undefined> {
  // It may be any program of the user.
  if ((await Deno.stat(runningProgram(pid))).size > PROGRAM_BYTES_MAX) return undefined;
  const dir = await Deno.makeTempDir({ prefix: "sbx-version-" });
  try {
    await Deno.chmod(dir, 0o755);
    const copy = join(dir, "sbx");
    await Deno.copyFile(runningProgram(pid), copy);
    await Deno.chmod(copy, 0o755);
    const { success, stdout } = await runAs(user, copy, ["--version"], undefined, VERSION_MS);
    return success ? /^\S+ (\S+)/.exec(stdout)?.[1] : undefined;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Users of `--user`; none: all. @throws {SbxError} `users.not_found` */
async function wantedUsers(args: Arguments): Promise<Set<number>> {
  const wanted = new Set<number>();
  for (const name of args.list("user")) {
    const user = await findUser(name);
    if (!user) {
      throw new SbxError("users.not_found", `this machine has no user "${plain(name)}"`, {
        hint: "sbx-admin users restart --dry-run lists the ones that run a replaced program",
      });
    }
    wanted.add(user.uid);
  }
  return wanted;
}

async function showMetrics(args: Arguments): Promise<number> {
  requireRoot("read", "sbx status --metrics prints your own");
  const program = await programPath();
  const wanted = await wantedUsers(args);
  // This command is such a process itself.
  const processes = (await programProcesses(program)).filter(({ uid, pids }) =>
    (wanted.size === 0 || wanted.has(uid)) && pids.some((pid) => pid !== Deno.pid)
  );
  const homes = Map.groupBy(processes, ({ uid }) => uid);
  const services = (await Promise.all([...homes].map(([uid, own]) => metricsOf(uid, own, program)))).flat();
  const text = joinMetrics(services.flatMap(({ labels, text }) => [
    {
      labels,
      text: `# TYPE ${UP} gauge\n# HELP ${UP} 1 if the user's service answers\n${UP} ${text ? 1 : 0}\n`,
    },
    ...(text ? [{ labels, text }] : []),
  ]));
  const out = args.text("out");
  if (out === undefined) await print(text.trimEnd());
  else {
    await writeAtomic(out, text, 0o644).catch((cause) => {
      throw new SbxError("users.metrics_unwritten", `${plain(out)} cannot be written`, {
        cause,
        hint: "give a file in a folder that is there, such as node_exporter's for text files",
      });
    });
  }
  return 0;
}

/** Metrics of the services of one user, one home after the other. */
async function metricsOf(uid: number, homes: readonly HomeProcesses[], program: string) {
  const services: ServiceMetrics[] = [];
  const user = await findUser(uid);
  if (!user) return services;
  const begin = performance.now();
  for (const { home } of homes.slice(0, HOMES_MAX)) {
    const isOwn = home === undefined || home === `${user.home}/.sbx`;
    const ms = METRICS_MS - (performance.now() - begin);
    const answer = ms <= 0 ? undefined : await runAs(user, program, ["status", "--metrics"], home, ms)
      .catch(ignore("the sample of its state says that it does not answer"));
    const text = answer?.success ? answer.stdout : "";
    services.push({ labels: { user: user.name, ...(!isOwn && { home: plain(home) }) }, text });
  }
  return services;
}

async function show(outcomes: readonly Outcome[], isDry: boolean): Promise<void> {
  if (outcomes.length === 0) await print("no user runs a replaced program");
  for (const { user, home, pids, restarted, left } of outcomes) {
    const who = home === undefined ? user : `${user} (${plain(home)})`;
    if (isDry) await print(`${who}: ${count(pids.length, "process", "processes")}: ${pids.join(", ")}`);
    else if (restarted.length > 0) {
      await print(`${who}: restarted ${restarted.map((each) => plain(each)).join(", ")}`);
    }
    for (const why of left) note(`sbx-admin: ${who}: ${plain(why)}`);
  }
}

/** Runs `sbx update restart` as a user. */
async function restartAs(
  user: User,
  program: string,
  home: string | undefined,
  mayStop: boolean,
): Promise<Pick<Outcome, "restarted" | "left">> {
  try {
    const args = ["update", "restart", "--json", ...mayStop ? ["--stop"] : []];
    const { stdout, stderr } = await runAs(user, program, args, home, RESTART_MS);
    const answer = Answer.safeParse(parse(stdout));
    if (answer.success) {
      const { restarted, left } = answer.data;
      return { restarted, left: left.map(({ vm, why }) => `${vm} runs on: ${why}`) };
    }
    const failure = Failure.safeParse(parse(stdout));
    const said = failure.success ? failure.data.error.message : stderr.trim();
    return { restarted: [], left: [`nothing is restarted: ${said.slice(-PROBLEM_MAX)}`] };
  } catch (cause) {
    return { restarted: [], left: [`nothing is restarted: ${asSbxError(cause, "runuser").message}`] };
  }
}

/** Runs sbx as a user, with that user's groups: VMs may need the one of /dev/kvm. */
async function runAs(
  { name, uid, home: own }: User,
  program: string,
  args: string[],
  home: string | undefined,
  ms: number,
) {
  const runtime = `/run/user/${uid}`;
  return await limitedOutput("runuser", {
    args: ["-u", name, "--", program, ...args],
    cwd: "/",
    clearEnv: true,
    env: {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      HOME: own,
      USER: name,
      LOGNAME: name,
      LANG: "C.UTF-8",
      ...(home !== undefined && { SBX_HOME: home }),
      ...(await ifFound(Deno.stat(runtime)) && { XDG_RUNTIME_DIR: runtime }),
    },
  }, { bytes: OUTPUT_MAX, ms });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
