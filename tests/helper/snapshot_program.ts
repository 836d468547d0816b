/**
 * Makes snapshots until it is killed: `snapshot_program.ts STORE WORKSPACE`. Says `ready` before
 * the first, and `made` after each.
 */
import { SnapshotStore } from "../../lib/machine/snapshot/mod.ts";

const [dir, workspace] = Deno.args;
const store = new SnapshotStore(dir, workspace, 0);
console.log("ready");
for (let i = 0;; i++) {
  // Large enough for several reads, and small ones.
  for (let n = 0; n < 40; n++) {
    await Deno.writeTextFile(`${workspace}/f${n}`, `${i} ${n}`.repeat(n === 0 ? 1e5 : 10));
  }
  await store.create({ kind: "auto", limits: { auto: 4, manual: 1 } });
  console.log("made");
}
