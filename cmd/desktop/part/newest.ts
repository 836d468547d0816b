/**
 * The newest session that has something to try a draft on: one without events
 * would make every draft look right.
 */
import { api } from "../api/routes.ts";

/** Most sessions that are looked into. */
const SESSIONS_MAX = 20;

type Session = Awaited<ReturnType<typeof api.sessions>>["sessions"][number];

/** An answer about a session. */
interface About<T> {
  session: Session;
  answer: T;
}

/**
 * Reads sessions, the newest first, until one has something.
 *
 * @param profile of the sessions; absent: any
 * @param read undefined: the session has nothing
 * @throws {ApiError} of `read`
 */
export async function ofNewest<T>(
  profile: string | undefined,
  read: (session: Session) => Promise<T | undefined>,
): Promise<About<T> | undefined> {
  const { sessions } = await api.sessions();
  const fitting = sessions.filter(({ profile_id }) => profile === undefined || profile_id === profile);
  for (const session of fitting.slice(0, SESSIONS_MAX)) {
    const answer = await read(session);
    if (answer !== undefined) return { session, answer };
  }
}

/** True where a session has an event. */
export async function hasEvents(id: string): Promise<boolean> {
  return (await api.events(id, { limit: "1" })).events.length > 0;
}
