/** Levels of `SBX_LOG` (docs/design/contracts/01-homes.md §1), from the fewest lines to the most. */
export const LOG_LEVELS = ["error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

const DEFAULT: LogLevel = "info";

/**
 * Reads the value of `SBX_LOG`; empty counts as unset.
 *
 * @returns the active level, and the problem of an invalid value
 */
export function parseLevel(text: string | undefined): { level: LogLevel; problem?: string } {
  if (!text) return { level: DEFAULT };
  const level = LOG_LEVELS.find((one) => one === text);
  if (level) return { level };
  const problem = `SBX_LOG=${JSON.stringify(text.slice(0, 40))} is not a log level: ${DEFAULT} applies; ` +
    `set it to ${LOG_LEVELS.slice(0, -1).join(", ")} or ${LOG_LEVELS.at(-1)}`;
  return { level: DEFAULT, problem };
}

/** `SBX_LOG` of this process. Undefined in roles that may not read their environment. */
export function readLevelVariable(): string | undefined {
  try {
    return Deno.env.get("SBX_LOG");
  } catch {
    return undefined;
  }
}
