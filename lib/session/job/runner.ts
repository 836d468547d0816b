import type { ExecStreams, Terminal } from "../../machine/guest/mod.ts";

/** Program of a job. */
export interface JobProgram {
  argv: string[];
  cwd?: string;
  env?: Record<string, string>;
  /** of programs without a terminal */
  timeout_ms?: number;
  tty: boolean;
  /** trace that the request for it claims */
  trace_id?: string;
}

/** Receives the decision of policy on a program. */
export type OnDecided = (event_id: string, allowed: boolean) => void;

/** The guest, as jobs use it. */
export interface JobRunner {
  /** A value as it may be written down: refs for secrets. */
  scrub<T>(value: T): Promise<T>;
  /** Runs a program to its end; one that policy blocks exits with 126. */
  exec(
    program: JobProgram,
    streams: ExecStreams & { decided: OnDecided },
    cancelled: AbortSignal,
  ): Promise<{ exit_code: number }>;
  /** Opens a terminal with a program. @returns undefined if policy blocks it, which `refused` receives */
  terminal(
    program: JobProgram,
    on: { decided: OnDecided; refused(line: string): void },
    cancelled: AbortSignal,
  ): Promise<Terminal | undefined>;
}
