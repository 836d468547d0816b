/**
 * Reports of sbx's own programs in a guest. Their output is bytes of a guest: bounded, and
 * checked against a strict schema.
 */
import type { z } from "zod";
import type { ExecResult } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseJson } from "../../../lib/base/json/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";

/** Longest report, in characters. */
const REPORT_MAX = 64 * 1024;
/** Longest run of such a program, in seconds. */
const TIMEOUT_SECS = timeLimit(300);
/** The shell's exit codes for a program that cannot be run, and for an unknown name. */
const NOT_RUN = [126, 127];

/**
 * Runs a program of the guest that prints a report.
 *
 * @throws {SbxError} `guest.report.invalid`: the program is missing, did not end, or printed something else
 */
export async function guestReport<T>(
  client: Client,
  vm: string,
  command: [program: string, ...string[]],
  schema: z.ZodType<T>,
): Promise<T> {
  const json = { command, timeout_secs: TIMEOUT_SECS };
  const { stdout, stderr, exit_code } = await client.json<ExecResult>("POST", `/vms/${segment(vm)}/exec`, {
    json,
  });
  const [program] = command;
  if (NOT_RUN.includes(exit_code)) {
    throw new SbxError(
      "guest.report.invalid",
      `${program} did not run in "${vm}": ${stderr.slice(0, 300).trim()}`,
      {
        hint:
          "sbx info NAME shows the VM's image; an image of an older sbx has fewer programs: sbx image build",
      },
    );
  }
  const report = schema.safeParse(parsed(stdout));
  if (report.success) return report.data;
  throw new SbxError(
    "guest.report.invalid",
    `${program} in "${vm}" printed no report (exit code ${exit_code})`,
    {
      hint: `sbx exec ${vm} -- ${program} shows what it prints; programs of the VM may have replaced it`,
    },
  );
}

function parsed(text: string): unknown {
  if (text.length > REPORT_MAX) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
