/**
 * Many small files in the workspace, a folder of the host through virtiofs, beside the same on the guest's own disk and in a
 * folder of the host that is shared live: what an agent does with a repository. Times are the guest's clock, in `ms`;
 * `SBX_BENCH_FILES` is the number of files. Each step is printed on standard error as it ends.
 */
import { join } from "node:path";
import { Sbx } from "../helper/sbx.ts";

const FILES = Number(Deno.env.get("SBX_BENCH_FILES") ?? 50_000);
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

/** Steps in their order, each a line of shell in the folder, which has the project. */
const STEPS: Record<string, string> = {
  npm_ci: "npm ci --offline --no-audit --no-fund",
  add: "git add -A && git -c user.name=a -c user.email=a@b commit -qm all",
  status: "git status --porcelain",
  clone: "git clone -q --no-hardlinks . ../clone && rm -rf ../clone",
  remove: "rm -rf node_modules",
};

const sbx = await Sbx.make();
const dir = await Deno.makeTempDir();
const measured: Record<string, Record<string, number>> = {};
try {
  const project = join(dir, "project");
  await Deno.mkdir(project);
  // In a VM with a live folder the rest of the workspace takes no repository.
  await measure("copy", [], { disk: "/root/b", workspace: "/workspace/b" });
  await measure("live", ["--live", project], { live: "/workspace/project" });
  const names = Object.keys(STEPS);
  const ratioOf = (place: string) =>
    names.filter((name) => name in measured[place]).map((
      name,
    ) => [name, Math.round(10 * measured[place][name] / measured.disk[name]) / 10]);
  const ratio = Object.fromEntries(
    ["workspace", "live"].map((place) => [place, Object.fromEntries(ratioOf(place))]),
  );
  console.log(JSON.stringify({ name: "workspace", files: FILES, unit: "ms", ...measured, ratio }));
} finally {
  await sbx.dispose();
  await Deno.remove(dir, { recursive: true });
}

/** Measures all steps in folders of one VM. */
async function measure(vm: string, options: string[], places: Record<string, string>): Promise<void> {
  await sbx.ok("create", vm, "--ram", "2048", ...options);
  const run = (script: string) => runLong(vm, script);
  await run(`git --version && python3 -c '${PREPARE}'`);
  for (const [place, folder] of Object.entries(places)) {
    // The repository of a live folder is on the disk of the VM, as sbx makes it.
    const git = options.length > 0 ? "GIT_DIR=/root/b.git GIT_WORK_TREE=$PWD" : "";
    const prefix = git === "" ? "" : `export ${git}; `;
    await run(`mkdir -p ${folder} && cd ${folder} && cp /root/project/* . && ${prefix}git init -q`);
    measured[place] = {};
    for (const [name, line] of Object.entries(STEPS)) {
      // A live folder takes no repository, and so no clone.
      if (place === "live" && name === "clone") continue;
      const timed =
        `set -e; cd ${folder}; ${prefix}s=$(date +%s%N); ${line} >/dev/null; echo $((($(date +%s%N) - s) / 1000000))`;
      measured[place][name] = Number(await run(timed));
      console.error(`${place} ${name}: ${measured[place][name]} ms`);
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
