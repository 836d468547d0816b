/** Answers that come late do not replace newer ones. */
import { assertEquals } from "@std/assert";
import type { Task } from "../../../lib/client/api/task.ts";
import { merged } from "../../../cmd/desktop/store/merged.ts";
import { Turns } from "../../../cmd/desktop/store/turns.ts";

Deno.test("desktop: an earlier answer that comes late is dropped", async () => {
  const turns = new Turns();
  const shown: string[] = [];
  const [first, second, third] = [1, 2, 3].map(() => Promise.withResolvers<string>());
  const all = [first, second, third].map(({ promise }) =>
    turns.take(() => promise, (text) => shown.push(text))
  );
  second.resolve("second");
  await all[1];
  first.resolve("first");
  await all[0];
  third.resolve("third");
  await all[2];
  assertEquals(shown, ["second", "third"]);
});

Deno.test("desktop: a task that has ended does not run again by an answer that was under way", () => {
  const task = (id: string, state: Task["state"], at: number): Task => ({
    id,
    kind: "image",
    subject: "code",
    state,
    started_at: `2026-01-01T00:00:0${at}.000Z`,
    lines: [],
    ...state !== "running" && { ended_at: "2026-01-01T00:01:00.000Z" },
  });
  const known = [task("a", "done", 1), task("gone", "failed", 0)];
  const read = [task("b", "running", 2), task("a", "running", 1)];
  assertEquals(merged(known, read).map(({ id, state }) => [id, state]), [["b", "running"], ["a", "done"]]);
  assertEquals(merged(undefined, read), read);
});
