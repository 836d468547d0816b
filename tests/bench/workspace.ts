/**
 * Many small files in each place that a guest has: its disk below the overlay (`/root`, where repositories
 * lie), the disk itself, memory, the workspace (a folder of the host through virtiofs) and a folder that is
 * shared live. Files are made, read and removed three times over, since a file system can be slower at making
 * them where others were removed; npm and git do on them what an agent does. Times are the guest's clock, in
 * `ms`; `SBX_BENCH_FILES` is the number of files, 4,000 if absent, and `SBX_BENCH_PLACES` chooses places.
 * Each step is printed on standard error as it ends.
 */
import { join } from "node:path";
import { Sbx } from "../helper/sbx.ts";
import { rounded } from "../helper/statistics.ts";

const FILES = Number(Deno.env.get("SBX_BENCH_FILES") ?? 4000);
const ROUNDS = 3;
/** Folder of each place, in the order of measuring. */
const FOLDERS: Record<string, string> = {
  overlay: "/root/b",
  disk: "/mnt/disk/b",
  memory: "/mnt/memory/b",
  workspace: "/workspace/b",
  live: "/workspace/project",
};
const chosen = Deno.env.get("SBX_BENCH_PLACES")?.split(",") ?? Object.keys(FOLDERS);
const unknown = chosen.find((place) => !(place in FOLDERS));
if (unknown) throw new Error(`there is no place ${unknown}; there are ${Object.keys(FOLDERS).join(", ")}`);

/** Files of one npm package. */
const PACKAGE_FILES = 200;
const PACKAGES = Math.ceil(FILES / PACKAGE_FILES);

/** Packages of npm with all files, and a project that depends on them. */
const PREPARE = `
import base64, hashlib, io, json, os, tarfile
os.makedirs("/root/packages"); os.makedirs("/root/project")
for at in range(${PACKAGES}):
    with tarfile.open("/root/packages/m%d.tgz" % at, "w:gz", compresslevel=1) as tar:
        def add(name, text):
            info = tarfile.TarInfo("package/" + name); info.size = len(text); info.mode = 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
        add("package.json", json.dumps({"name": "m%d" % at, "version": "1.0.0"}))
        for file in range(${PACKAGE_FILES - 1}):
            add("lib/%d/f%d.js" % (file // 20, file), "module.exports = %d;" % file * 20)
def integrity(at):
    with open("/root/packages/m%d.tgz" % at, "rb") as file:
        return "sha512-" + base64.b64encode(hashlib.sha512(file.read()).digest()).decode()
path = lambda at: "file:/root/packages/m%d.tgz" % at
root = {"name": "project", "version": "1.0.0", "dependencies": {"m%d" % at: path(at) for at in range(${PACKAGES})}}
locked = {"node_modules/m%d" % at: {"version": "1.0.0", "resolved": path(at), "integrity": integrity(at)} for at in range(${PACKAGES})}
json.dump(root, open("/root/project/package.json", "w"))
lock = {"name": "project", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": {"": root, **locked}}
json.dump(lock, open("/root/project/package-lock.json", "w"))
`;

/**
 * Makes, reads and removes files of 2 KB, twenty in a folder. Argument: the folder. Prints the three times.
 */
const MAKE_AND_REMOVE = `
import os, shutil, sys, time
place = sys.argv[1] + "/files"
os.mkdir(place)
names = ["%s/d%d/f%d" % (place, at // 20, at) for at in range(${FILES})]
times = [time.time()]
for at, name in enumerate(names):
    if at % 20 == 0: os.mkdir(os.path.dirname(name))
    with open(name, "wb") as file: file.write(b"x" * 2048)
times.append(time.time())
for name in names:
    with open(name, "rb") as file: file.read()
times.append(time.time())
shutil.rmtree(place)
times.append(time.time())
print(*(round(1000 * (after - before)) for before, after in zip(times, times[1:])))
`;

/** What is done with a project, each a line of shell in its folder. */
const STEPS: Record<string, string> = {
  npm_ci: "npm ci --offline --no-audit --no-fund",
  npm_ci_again: "rm -rf node_modules && npm ci --offline --no-audit --no-fund",
  add: "git add -A && git -c user.name=a -c user.email=a@b commit -qm all",
  status: "git status --porcelain",
  clone: "git clone -q --no-hardlinks . ../clone && rm -rf ../clone",
  remove: "rm -rf node_modules",
};

/** `ms` of each step; of files, one figure for each round. */
type Times = Record<string, number | number[]>;

const sbx = await Sbx.make();
const dir = await Deno.makeTempDir();
const measured: Record<string, Times> = {};
try {
  const project = join(dir, "project");
  await Deno.mkdir(project);
  // In a VM with a live folder the rest of the workspace takes no repository.
  const own = chosen.filter((place) => place !== "live");
  if (own.length > 0) await measure("own", [], own);
  if (chosen.includes("live")) await measure("live", ["--live", project], ["live"]);
  console.log(JSON.stringify({ name: "workspace", files: FILES, unit: "ms", ...measured, ratio: ratios() }));
} finally {
  await sbx.dispose();
  await Deno.remove(dir, { recursive: true });
}

/** Each place's times ÷ those of the disk, and of its last round ÷ its first. */
function ratios(): Record<string, Record<string, number>> {
  const last = (times: number | number[]) => typeof times === "number" ? times : times.at(-1)!;
  return Object.fromEntries(chosen.map((place) => {
    const times = measured[place];
    const made = times.make as number[];
    const toDisk = Object.entries(measured.disk ?? {}).filter(([step]) => step in times && place !== "disk")
      .map(([step, disk]) => [step, rounded(last(times[step]) / last(disk), 1)]);
    return [place, { make_last_to_first: rounded(made.at(-1)! / made[0], 1), ...Object.fromEntries(toDisk) }];
  }));
}

/** Measures all steps in places of one VM. */
async function measure(vm: string, options: string[], places: string[]): Promise<void> {
  await sbx.ok("create", vm, "--ram", "2048", ...options);
  const run = (script: string) => runLong(vm, script);
  await run(
    `git --version && python3 -c '${PREPARE}' && cat >/root/files.py <<'END'\n${MAKE_AND_REMOVE}\nEND`,
  );
  await run(
    "mkdir -p /mnt/disk /mnt/memory && mount -t ext4 -o noatime /dev/vdc /mnt/disk && mount -t tmpfs memory /mnt/memory",
  );
  for (const place of places) {
    const folder = FOLDERS[place];
    const times: Times = measured[place] = { make: [], read: [], remove_files: [] };
    await run(`mkdir -p ${folder}`);
    for (let round = 0; round < ROUNDS; round++) {
      const [make, read, remove] = (await run(`python3 /root/files.py ${folder}`)).trim().split(" ").map(
        Number,
      );
      for (const [step, ms] of Object.entries({ make, read, remove_files: remove })) {
        (times[step] as number[]).push(ms);
        console.error(`${place} ${step}, round ${round + 1}: ${ms} ms`);
      }
    }
    // The repository of a live folder is on the disk of the VM, as sbx makes it.
    const prefix = place === "live" ? "export GIT_DIR=/root/b.git GIT_WORK_TREE=$PWD; " : "";
    await run(`cd ${folder} && cp /root/project/* . && ${prefix}git init -q`);
    for (const [name, line] of Object.entries(STEPS)) {
      // A live folder takes no repository, and so no clone.
      if (place === "live" && name === "clone") continue;
      const timed =
        `set -e; cd ${folder}; ${prefix}s=$(date +%s%N); ${line} >/dev/null; echo $((($(date +%s%N) - s) / 1000000))`;
      times[name] = Number(await run(timed));
      console.error(`${place} ${name}: ${times[name]} ms`);
    }
  }
  await sbx.ok("delete", vm);
}

/** Runs a script as a job: it takes longer than a command of tests may. @returns its output */
async function runLong(vm: string, script: string): Promise<string> {
  const id = (await sbx.ok("exec", "--detach", vm, "--", "sh", "-c", script)).trim();
  for (;;) {
    const { jobs } = JSON.parse(await sbx.ok("jobs", vm, "--json"));
    const { state, exit_code } = jobs.find((job: { id: string }) => job.id === id);
    if (state === "Ended") {
      const { stdout, stderr } = await sbx.cli("jobs", "logs", id);
      if (exit_code !== 0) throw new Error(`${script} → ${exit_code}\n${stdout}${stderr}`);
      return stdout;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
