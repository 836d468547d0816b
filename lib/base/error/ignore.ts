/**
 * Handler of a failure that changes nothing. The reason is for the reader; where a failure may be news, log it instead.
 *
 * @example
 * ```ts
 * await channel.send(last).catch(ignore("the other side has left"));
 * ```
 */
export function ignore(_reason: string): () => undefined {
  return () => undefined;
}

/** The result of an operation on a file; undefined if the file does not exist. Other failures are thrown. */
export async function ifFound<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
