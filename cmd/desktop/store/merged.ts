/** Tasks of an answer beside the ones of messages that came while it was under way. */

/** A task as far as its end counts. */
interface Ending {
  id: string;
  ended_at?: string;
}

/** The answer's tasks; one that is known to have ended stays so. */
export function merged<T extends Ending>(known: T[] | undefined, read: T[]): T[] {
  return read.map((task) =>
    known?.find(({ id, ended_at }) => id === task.id && ended_at !== undefined) ?? task
  );
}
