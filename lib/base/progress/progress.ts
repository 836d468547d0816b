import type { ProgressSink, Stage } from "./stage.ts";

const encoder = new TextEncoder();
/** Cells of the bar. */
const BAR_WIDTH = 24;
/** Milliseconds between two drawings of the bar. */
const REDRAW_MS = 100;
/** A pipe gets a line at each of these shares of a stage that counts, so that a log shows life; not of quick ones. */
const PLAIN_STEP = 0.25;
const PLAIN_AFTER_MS = 3000;

/** Where a {@linkcode Progress} draws; tests give their own. */
export interface ProgressOutput {
  /** true draws one line over and over, false prints a line a stage */
  terminal: boolean;
  write(text: string): void;
  /** milliseconds of a clock that only goes forward */
  now(): number;
}

const standardError = (): ProgressOutput => ({
  terminal: Deno.stderr.isTerminal(),
  write: (text) => void Deno.stderr.writeSync(encoder.encode(text)),
  now: () => performance.now(),
});

/**
 * A progress bar on a terminal's stderr, plain lines elsewhere. Its share is the weight of the stages behind it,
 * plus what the current one has counted.
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
  #shown = 0;
  #stageStarted = 0;
  readonly #started: number;
  #timer?: ReturnType<typeof setInterval>;

  constructor(stages: Stage[], output: ProgressOutput = standardError()) {
    this.#stages = stages;
    this.#output = output;
    this.#started = output.now();
    this.#weight = stages.reduce((sum, { weight }) => sum + weight, 0) || 1;
  }

  stage(name: string, total = 0): void {
    const next = this.#stages.findIndex((stage) => stage.name === name);
    if (next < 0) throw new TypeError(`no stage is called ${name}`);
    this.#before = this.#stages.slice(0, next).reduce((sum, { weight }) => sum + weight, 0);
    this.#at = next;
    this.#total = total;
    this.#count = this.#shown = 0;
    this.#stageStarted = this.#output.now();
    if (!this.#output.terminal) return this.#output.write(`${name}${total ? `: ${bytes(total)}` : ""}\n`);
    // The clock moves the seconds on while a stage that cannot count is at work.
    if (this.#timer === undefined) Deno.unrefTimer(this.#timer = setInterval(() => this.#draw(), REDRAW_MS));
    this.#draw();
  }

  advance(units: number): void {
    this.#count += units;
    if (this.#output.terminal || !this.#total) return;
    if (this.#count / this.#total < this.#shown + PLAIN_STEP) return;
    if (this.#output.now() - this.#stageStarted < PLAIN_AFTER_MS) return;
    this.#shown = Math.floor(this.#count / this.#total / PLAIN_STEP) * PLAIN_STEP;
    this.#output.write(`${this.#stages[this.#at].name}: ${Math.round(this.#shown * 100)}%\n`);
  }

  /** Share of the work that is done, 0 to 1. */
  get share(): number {
    if (this.#at < 0) return 0;
    const within = this.#total ? Math.min(this.#count / this.#total, 1) : 0;
    return (this.#before + this.#stages[this.#at].weight * within) / this.#weight;
  }

  /** Wipes the bar: what comes next has the line to itself. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    if (this.#timer !== undefined) this.#output.write("\r\x1b[K");
    this.#timer = undefined;
  }

  #draw(): void {
    const full = Math.round(this.share * BAR_WIDTH);
    const bar = "#".repeat(full) + "-".repeat(BAR_WIDTH - full);
    const percent = `${Math.floor(this.share * 100)}`.padStart(3);
    const counted = this.#total ? ` ${bytes(this.#count)} of ${bytes(this.#total)}` : "";
    const seconds = Math.floor((this.#output.now() - this.#started) / 1000);
    this.#output.write(
      `\r\x1b[K[${bar}] ${percent}% ${this.#stages[this.#at].name}${counted} (${seconds} s)`,
    );
  }
}

/** A size for people: `12.3 MB`. */
export function bytes(count: number): string {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]] as const) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count} B`;
}
