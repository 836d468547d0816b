/** Tasks of clients without a terminal: their end, how many there are, and what their process gets. */
import { assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Task } from "../../../lib/client/api/mod.ts";
import { Tasks } from "../../../lib/service/tasks.ts";
import { eventually } from "../../helper/sbx.ts";

/** Tasks whose command is a script. */
function tasksOf(dir: string, script: string): Tasks {
  return new Tasks({ dir }, { publish: () => {} }, (role, args = []) => ({
    cmd: "/bin/sh",
    args: ["-c", script, role, ...args],
  }));
}

const REQUEST = { kind: "agent" as const, subject: "claude", args: ["agent"] };

const ended = (tasks: Tasks) =>
  eventually("the tasks end", () => tasks.list().every(({ ended_at }) => ended_at !== undefined));

Deno.test("a task whose process has ended, and whose programs have not, can be cancelled", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const file = join(dir, "pid"), fifo = join(dir, "fifo");
    await new Deno.Command("mkfifo", { args: [fifo] }).output();
    // The program in the background keeps the output of the task open until it is let go.
    const tasks = tasksOf(dir, `echo begun >&2; (read -r _ <'${fifo}') & echo $$ >'${file}'`);
    const { id } = tasks.start(REQUEST);
    await eventually("its process ends", async () => {
      const pid = (await Deno.readTextFile(file).catch(() => "")).trim();
      return pid !== "" && await Deno.stat(`/proc/${pid}`).then(() => false, () => true);
    });
    assertEquals(tasks.cancel(id).state, "cancelled");
    tasks.close();
    await Deno.writeTextFile(fifo, "go\n");
    await ended(tasks);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a cancelled task counts until its process has ended, also when it was dismissed before", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const tasks = tasksOf(dir, "exec sleep 60");
    const begun: Task[] = [];
    for (let at = 0; at < 4; at++) begun.push(tasks.start(REQUEST));
    for (const { id } of begun) tasks.cancel(id);
    // The second time it is dismissed, though its process may still remove its work.
    for (const { id } of begun) tasks.cancel(id);
    assertEquals(tasks.list(), []);
    assertEquals(assertThrows(() => tasks.cancel(begun[0].id), SbxError).code, "task.not_found");
    assertEquals(assertThrows(() => tasks.start(REQUEST), SbxError).code, "task.busy");
    await eventually("their processes end", () => begun.every(({ ended_at }) => ended_at !== undefined));
    tasks.cancel(tasks.start(REQUEST).id);
    await ended(tasks);
    assertEquals(tasks.list().length, 1);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("an error that is none, and the person's remote machine, are left out", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const tasks = tasksOf(
      dir,
      `echo "{\\"error\\":\\"at [\${SBX_HOST-any}]\\",\\"code\\":\\"x.y\\"}" >&2; echo '{"a":1}' >&2; exit 1`,
    );
    tasks.start(REQUEST);
    await ended(tasks);
    assertEquals(tasks.list()[0].error, { error: "at []", code: "x.y" });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
