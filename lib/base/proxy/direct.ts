/** Clients that no variable of the environment leads to a proxy. */

/** Variables that name proxies; Deno reads them whenever it makes an HTTP client. */
export const VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"].flatMap((name) => [
  name,
  name.toLowerCase(),
]);

/**
 * A client for this machine's own ports, which no proxy can reach. Deno's own one
 * would send their requests to it.
 */
export function directClient(caCerts: string[] = []): Deno.HttpClient {
  return withoutVariables(() => Deno.createHttpClient({ caCerts }));
}

/** Hides the variables from Deno: which request goes where is decided here alone. */
export function withoutVariables<T>(make: () => T): T {
  const values = VARIABLES.map((name) => [name, Deno.env.get(name)] as const);
  for (const [name, value] of values) if (value !== undefined) Deno.env.delete(name);
  try {
    return make();
  } finally {
    for (const [name, value] of values) if (value !== undefined) Deno.env.set(name, value);
  }
}
