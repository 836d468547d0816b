/** Reads about events that the page knows of before they are in the record. */
import { ApiError } from "../api/client.ts";

/** `ms` between two tries: an event is announced at once, and is in the record a moment later. */
const RETRY_MS = 200;
const TRIES_MAX = 10;

/** Reads what needs an event, once that is recorded. @throws {ApiError} */
export async function whenRecorded<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 1;; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404 || tries === TRIES_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}
