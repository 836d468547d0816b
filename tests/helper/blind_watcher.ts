/**
 * Watches a shared folder that gets more folders than this process may watch, until its guest was notified.
 *
 * Usage: blind_watcher.ts shared|alone. `shared`: other programs have half of the watches.
 */
import { FolderChanges } from "../../lib/machine/live/mod.ts";

const isShared = Deno.args[0] === "shared";
const root = Deno.makeTempDirSync();
const [dir, workspace, old, other] = ["app", "workspace", "app/old", "other"].map((name) =>
  `${root}/${name}`
);
for (const each of [dir, workspace, old, other]) Deno.mkdirSync(each);
for (const at of Array(5).keys()) Deno.mkdirSync(`${other}/${at}`);
const others = isShared ? Deno.watchFs(other, { recursive: true }) : undefined;
const changes = new FolderChanges({ dir, name: "app", top: [], workspace });
for (const at of Array(12).keys()) Deno.mkdirSync(`${dir}/${at}`);
let drops = 0;
const alive = setInterval(() => {
  if (drops < 3) return;
  if (isShared) Deno.writeTextFileSync(`${old}/late`, `${Date.now()}`);
  else end(`${watchers()} watchers`);
}, 100);
changes.tell((action, paths) => {
  if (action === "look" && paths.length === 0) drops++;
  if (action === "wake" && drops >= 3 && paths.includes("app/old/late")) end("woken");
  return Promise.resolve();
});

function end(text: string): void {
  clearInterval(alive);
  changes.close();
  others?.close();
  Deno.removeSync(root, { recursive: true });
  console.log(text);
}

/** Watchers of this process that have watches. */
function watchers(): number {
  const files = Array.from(Deno.readDirSync(`/proc/${Deno.pid}/fdinfo`), ({ name }) => {
    try {
      return Deno.readTextFileSync(`/proc/${Deno.pid}/fdinfo/${name}`);
    } catch {
      return "";
    }
  });
  return files.filter((text) => text.includes("inotify wd:")).length;
}
