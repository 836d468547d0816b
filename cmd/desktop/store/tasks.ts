/**
 * Tasks of the service, which pages follow while they are shown: images that are built, agents that start.
 */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Task } from "../api/routes.ts";
import { onMessage } from "./live.ts";
import { merged } from "./merged.ts";
import { act, connection } from "./store.ts";

/** The newest first; absent until they were read. */
export const tasks = signal<Task[] | undefined>(undefined);

/** Tasks that the person has dismissed: a message about one may be under way. */
const dismissed = new Set<string>();

function putTask(task: Task): void {
  if (dismissed.has(task.id)) return;
  const others = (tasks.value ?? []).filter(({ id }) => id !== task.id);
  tasks.value = [task, ...others].toSorted((a, b) => b.started_at.localeCompare(a.started_at));
}

/** Keeps {@linkcode tasks} current while a page needs them. */
export function useTasks(): void {
  const isOnline = connection.value === "online";
  useEffect(() => onMessage(({ type, payload }) => type === "task" && putTask(payload)), []);
  useEffect(() => {
    if (isOnline) {
      act(async () =>
        tasks.value = merged(tasks.value, (await api.tasks()).tasks.filter(({ id }) => !dismissed.has(id)))
      );
    }
  }, [isOnline]);
}

/** Begins a task, which is then followed. */
export async function begin(work: () => Promise<Task>): Promise<Task> {
  const task = await work();
  putTask(task);
  return task;
}

/** Ends a task that runs, or forgets another one. */
export function drop(task: Task): Promise<boolean> {
  return act(async () => {
    await api.cancelTask(task.id);
    if (task.state === "running") return;
    dismissed.add(task.id);
    tasks.value = tasks.value?.filter(({ id }) => id !== task.id);
  });
}
