/** Watches a shared folder that gets more folders than this process may watch, until its guest has heard what it has to hear. */
import { FolderChanges } from "../../lib/machine/live/mod.ts";

const root = Deno.makeTempDirSync();
const [dir, workspace, old] = [`${root}/app`, `${root}/workspace`, `${root}/app/old`];
for (const each of [dir, workspace, old]) Deno.mkdirSync(each);
const changes = new FolderChanges({ dir, name: "app", top: [], workspace });
for (const at of Array(10).keys()) Deno.mkdirSync(`${dir}/${at}`);
let drops = 0;
const alive = setInterval(() => {
  if (drops >= 3) Deno.writeTextFileSync(`${old}/late`, `${Date.now()}`);
}, 100);
changes.tell((action, paths) => {
  if (action === "look" && paths.length === 0) drops++;
  if (action === "wake" && paths.includes("app/old/late")) {
    clearInterval(alive);
    changes.close();
    Deno.removeSync(root, { recursive: true });
    console.log("over");
  }
  return Promise.resolve();
});
