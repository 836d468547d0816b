/**
 * Many small files in the workspace, a folder of the host through virtiofs, beside the same on the guest's own disk: what an
 * agent does with a repository. Times are the guest's clock, in `ms`; `SBX_BENCH_FILES` is the number of files.
 */
import { Sbx } from "../helper/sbx.ts";

const FILES = Number(Deno.env.get("SBX_BENCH_FILES") ?? 50_000);
const PLACES = { workspace: "/workspace", disk: "/root" };

/** Steps in their order, each a line of shell in an empty folder. */
const STEPS: Record<string, string> = {
  install: `python3 -c "
import os
for at in range(${FILES}):
    folder = 'node_modules/m%d/lib' % (at // 20)
    if at % 20 == 0: os.makedirs(folder)
    open('%s/f%d.js' % (folder, at), 'w').write('module.exports = %d;' % at * 20)
"`,
  add: "git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm all",
  status: "git status --porcelain",
  clone: "git clone -q --no-hardlinks . ../clone",
  remove: "rm -rf node_modules",
};

const sbx = await Sbx.make();
try {
  await sbx.ok("create", "bench", "--ram", "2048");
  // Programs are read from the image once.
  await sbx.ok("exec", "bench", "-c", "git --version && python3 -c pass");
  const measured: Record<string, Record<string, number>> = {};
  for (const [place, folder] of Object.entries(PLACES)) {
    const timed = Object.entries(STEPS).map(([name, line]) =>
      `s=$(date +%s%N); ${line} >/dev/null; echo ${name} $((($(date +%s%N) - s) / 1000000))`
    );
    const script = [
      "set -e",
      `mkdir ${folder}/b; cd ${folder}/b`,
      ...timed,
      `cd /; rm -rf ${folder}/b ${folder}/clone`,
    ];
    const lines = (await sbx.ok("exec", "bench", "-c", script.join("\n"))).trim().split("\n");
    measured[place] = Object.fromEntries(
      lines.map((line) => [line.split(" ")[0], Number(line.split(" ")[1])]),
    );
  }
  const ratio = Object.fromEntries(
    Object.keys(STEPS).map((
      name,
    ) => [name, Math.round(10 * measured.workspace[name] / measured.disk[name]) / 10]),
  );
  console.log(JSON.stringify({ name: "workspace", files: FILES, unit: "ms", ...measured, ratio }));
} finally {
  await sbx.dispose();
}
