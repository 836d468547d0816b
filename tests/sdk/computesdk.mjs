/** A program of ComputeSDK on VMs of sbx; prints what it saw, as JSON. */
import { sbxProvider } from "./computesdk.ts";

const compute = sbxProvider({});
const sandbox = await compute.sandbox.create({ name: "compute", envs: { GREETING: "grüße" } });
const seen = {};
try {
  seen.ran = await sandbox.runCommand('echo "$GREETING $WHO"; pwd; exit 3', {
    env: { WHO: "you" },
    cwd: "/tmp",
  });
  const streamed = [];
  seen.streamed = (await sandbox.runCommand("echo out; echo err >&2", {
    onStdout: (text) => streamed.push(["out", text]),
    onStderr: (text) => streamed.push(["err", text]),
  })).exitCode;
  seen.pieces = streamed.toSorted();
  seen.late = (await sandbox.runCommand("sleep 60", { timeout: 500 })).exitCode;
  await sandbox.filesystem.mkdir("/root/work/deep");
  await sandbox.filesystem.writeFile("/root/work/answer.txt", "42 ü");
  seen.read = await sandbox.filesystem.readFile("/root/work/answer.txt");
  seen.entries = (await sandbox.filesystem.readdir("/root/work")).map(({ name, type }) => [name, type])
    .toSorted();
  await sandbox.filesystem.remove("/root/work");
  seen.exists = await sandbox.filesystem.exists("/root/work");
  const { status, provider } = await sandbox.getInfo();
  seen.info = [status, provider];
  await sandbox.runCommand("exec sleep 300", { background: true });
  seen.background = (await sandbox.runCommand("pgrep -c -f '^sleep 300'")).stdout.trim();
  seen.same = (await compute.sandbox.getById(sandbox.sandboxId)).sandboxId === sandbox.sandboxId;
  seen.listed = (await compute.sandbox.list()).length;
  seen.unknown = await compute.sandbox.getById("no-such-vm");
} finally {
  await sandbox.destroy();
}
seen.left = (await compute.sandbox.list()).length;
console.log(JSON.stringify(seen));
process.exit();
