/** Sizes of memory and disks as people write them: `4G`, `4GiB`, `512M`, `1.5T`, `4096`. */
import type { Arguments } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

/** Units by their first letter, in `MiB`. */
const UNITS: Readonly<Record<string, number>> = { m: 1, g: 1024, t: 1024 * 1024 };

/** Bounds and units of an option with a size. */
export interface SizeRule {
  /** without dashes */
  option: string;
  /** unit that the request counts in */
  step: "m" | "g";
  /** bounds in that unit */
  min: number;
  max: number;
  /** unit of a number alone */
  unitOf(value: number): "m" | "g";
  /** what people may give, for hints */
  hint: string;
}

/**
 * Reads a size. Units are binary, as memory and disks of VMs are: `4GB` is `4GiB`.
 *
 * @returns whole units of the rule's `step`; `undefined`: the option is absent
 * @throws {SbxError} `usage.invalid`: no size, no whole number of units, or out of bounds
 */
export function sizeOption(args: Arguments, { option, step, min, max, unitOf, hint }: SizeRule) {
  const text = args.text(option);
  if (text === undefined) return undefined;
  const refused = (why: string) => new SbxError("usage.invalid", `--${option} ${text}: ${why}`, { hint });
  const [, digits, letter] = /^(\d+(?:\.\d+)?)\s*(?:([a-z])(?:i?b)?)?$/i.exec(text.trim()) ?? [];
  if (digits === undefined) throw refused("not a size");
  const unit = letter?.toLowerCase() ?? unitOf(Number(digits));
  if (!Object.hasOwn(UNITS, unit)) throw refused(`"${letter}" is not a unit; these are M, G and T`);
  const size = Number(digits) * UNITS[unit] / UNITS[step];
  // A number alone may have been meant in another unit.
  const read = letter === undefined ? `it is ${digits}${unit.toUpperCase()}, and ` : "";
  if (size < min) throw refused(`${read}the least is ${formatStep(min, step)}`);
  if (size > max) throw refused(`${read}the most is ${formatStep(max, step)}`);
  if (!Number.isInteger(size)) throw refused(`not a whole number of ${step === "m" ? "MiB" : "GiB"}`);
  return size;
}

function formatStep(value: number, step: "m" | "g"): string {
  return step === "m" && value % UNITS.g === 0 ? `${value / UNITS.g}G` : `${value}${step.toUpperCase()}`;
}
