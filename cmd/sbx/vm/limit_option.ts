import type { CreateRequest } from "../../../lib/client/api/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";

type Limits = NonNullable<CreateRequest["limits"]>;

const OF_PROGRAMS = ["processes", "open_files", "file_mb"] as const satisfies (keyof Limits)[];
const OF_VMS = [
  ...OF_PROGRAMS,
  "cpu_percent",
  "disk_mb_per_s",
  "network_mb_per_s",
] as const satisfies (keyof Limits)[];

/** Limits of a new VM and of its programs (docs/guides/limits.md). */
export const LIMIT_OPTION: Option = {
  name: "limit",
  value: "NAME=N",
  about: `limit the VM: ${OF_VMS.join(", ")} (repeatable)`,
  many: true,
};

/** Limits of one program. */
export const PROGRAM_LIMIT_OPTION: Option = {
  name: "limit",
  value: "NAME=N",
  about: `limit the program: ${OF_PROGRAMS.join(", ")} (repeatable)`,
  many: true,
};

/** Request field of {@linkcode LIMIT_OPTION}. @throws {SbxError} `usage.invalid` */
export function vmLimitsOf(args: Arguments): { limits?: Limits } {
  return limitsOf(args, OF_VMS);
}

/** Request field of {@linkcode PROGRAM_LIMIT_OPTION}. @throws {SbxError} `usage.invalid` */
export function programLimitsOf(args: Arguments): { limits?: Pick<Limits, typeof OF_PROGRAMS[number]> } {
  return limitsOf(args, OF_PROGRAMS);
}

function limitsOf(args: Arguments, names: readonly (keyof Limits)[]): { limits?: Limits } {
  const limits: Limits = {};
  for (const text of args.list("limit")) {
    const [, word, number] = /^([a-z_]{1,32})=([1-9]\d{0,8})$/.exec(text) ?? [];
    const name = names.find((name) => name === word);
    const hint = `give NAME=N with a whole number; names: ${names.join(", ")}`;
    if (name === undefined) {
      throw new SbxError("usage.invalid", `invalid value "${text}" of --limit`, {
        hint: didYouMean(word ?? "", names) ?? hint,
      });
    }
    if (limits[name] !== undefined) {
      throw new SbxError("usage.invalid", `--limit ${name} is given twice`, { hint });
    }
    limits[name] = Number(number);
  }
  return Object.keys(limits).length > 0 ? { limits } : {};
}
