/** Progress of long-running work: a bar on a terminal, plain lines elsewhere. */
import { backgroundInterval } from "../time/mod.ts";

/** One part of long-running work. */
export interface Stage {
  name: string;
  /** duration relative to the other stages, in any unit */
  weight: number;
}

/** Receiver of progress reports. */
export interface ProgressSink {
  /** Enters a stage; `total` is its number of units, 0 for a stage without a count. */
  stage(name: string, total?: number): void;
  /** Adds finished units to the current stage. */
  advance(units: number): void;
}

/** Sink that shows nothing. */
export const silent: ProgressSink = { stage() {}, advance() {} };

const encoder = new TextEncoder();
/** Width of the bar, in characters. */
const BAR_WIDTH = 24;
/** Redraw interval of the bar, in `ms`. */
const REDRAW_MS = 100;
/** Share of a counting stage between two plain lines, so that a log shows life. */
const PLAIN_STEP = 0.25;
/** Age of a stage before its first plain line, in `ms`: quick stages print none. */
const PLAIN_AFTER_MS = 3000;

/** Output of a {@linkcode Progress}; tests supply their own. */
export interface ProgressOutput {
  /** true redraws one line, false prints one line per stage */
  terminal: boolean;
  write(text: string): void;
  /** monotonic clock, in `ms` */
  now(): number;
}

const standardError = (): ProgressOutput => ({
  // A dumb terminal erases no line.
  terminal: Deno.stderr.isTerminal() && Deno.env.get("TERM") !== "dumb",
  write: (text) => void Deno.stderr.writeSync(encoder.encode(text)),
  now: () => performance.now(),
});

/**
 * Progress bar on a terminal's stderr, plain lines elsewhere. The share done is the weight of the finished
 * stages plus the counted part of the current one.
 *
 * @example
 * ```ts
 * using progress = new Progress([{ name: "kernel", weight: 1 }, { name: "rootfs", weight: 3 }]);
 * progress.stage("kernel");
 * progress.stage("rootfs", 1000);
 * progress.advance(250);
 * ```
 */
export class Progress implements ProgressSink {
  readonly #stages: Stage[];
  readonly #output: ProgressOutput;
  readonly #weight: number;
  #at = -1;
  #before = 0;
  #total = 0;
  #count = 0;
  #reportedShare = 0;
  #stageStarted = 0;
  readonly #started: number;
  #timer?: number;

  constructor(stages: Stage[], output: ProgressOutput = standardError()) {
    this.#stages = stages;
    this.#output = output;
    this.#started = output.now();
    this.#weight = stages.reduce((sum, { weight }) => sum + weight, 0) || 1;
  }

  stage(name: string, total = 0): void {
    const next = this.#stages.findIndex((stage) => stage.name === name);
    if (next < 0) throw new TypeError(`unknown stage ${name}`);
    this.#before = this.#stages.slice(0, next).reduce((sum, { weight }) => sum + weight, 0);
    this.#at = next;
    this.#total = total;
    this.#count = this.#reportedShare = 0;
    this.#stageStarted = this.#output.now();
    if (!this.#output.terminal) {
      return this.#output.write(`${name}${total ? `: ${formatBytes(total)}` : ""}\n`);
    }
    // Keeps the seconds moving during a stage without a count.
    this.#timer ??= backgroundInterval(() => this.#draw(), REDRAW_MS);
    this.#draw();
  }

  advance(units: number): void {
    this.#count += units;
    if (this.#output.terminal || !this.#total) return;
    if (this.#count / this.#total < this.#reportedShare + PLAIN_STEP) return;
    if (this.#output.now() - this.#stageStarted < PLAIN_AFTER_MS) return;
    this.#reportedShare = Math.floor(this.#count / this.#total / PLAIN_STEP) * PLAIN_STEP;
    this.#output.write(`${this.#stages[this.#at].name}: ${Math.round(this.#reportedShare * 100)}%\n`);
  }

  /** Share of the work done, 0 to 1. */
  get share(): number {
    if (this.#at < 0) return 0;
    const within = this.#total ? Math.min(this.#count / this.#total, 1) : 0;
    return (this.#before + this.#stages[this.#at].weight * within) / this.#weight;
  }

  /** Erases the bar, leaving an empty line for later output. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    if (this.#timer !== undefined) this.#output.write("\r\x1b[K");
    this.#timer = undefined;
  }

  #draw(): void {
    const full = Math.round(this.share * BAR_WIDTH);
    const bar = "#".repeat(full) + "-".repeat(BAR_WIDTH - full);
    const percent = `${Math.floor(this.share * 100)}`.padStart(3);
    const counted = this.#total ? ` ${formatBytes(this.#count)} of ${formatBytes(this.#total)}` : "";
    const seconds = Math.floor((this.#output.now() - this.#started) / 1000);
    this.#output.write(
      `\r\x1b[K[${bar}] ${percent}% ${this.#stages[this.#at].name}${counted} (${seconds} s)`,
    );
  }
}

/** Formats a size in `bytes` for people: `12.3 MB`. */
export function formatBytes(count: number): string {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]] as const) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count} B`;
}
