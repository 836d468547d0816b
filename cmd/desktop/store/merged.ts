/** Tasks of an answer beside the ones of messages that came while it was under way. */
import type { Task } from "../api/routes.ts";

/** The answer's tasks; one that is known to have ended stays so. */
export function merged(known: Task[] | undefined, read: Task[]): Task[] {
  return read.map((task) =>
    known?.find(({ id, ended_at }) => id === task.id && ended_at !== undefined) ?? task
  );
}
