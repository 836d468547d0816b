/** Options, keys and reports that release commands share. */
import { join } from "node:path";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { Progress } from "../../../lib/base/progress/mod.ts";
import { KEYS, type PublisherKeys, readPublisherKeys } from "../../../lib/publish/mod.ts";
import type { ReleaseKeys, TreeReport } from "../../../lib/release/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";

/** Options shared by several commands. */
export const CHANNEL_OPTION: Option = { name: "channel", value: "ID", about: "the channel; default stable" };
export const KEYS_OPTION: Option = {
  name: "keys",
  value: "DIR",
  about: `folder with hmac.keys and NAME.pem; default ${KEYS} in the workspace`,
};

export function channelOf(args: Arguments): string {
  return args.text("channel") ?? "stable";
}

/** Keys that sign, of the workspace that is the first word. */
export async function publisherKeys(args: Arguments): Promise<PublisherKeys> {
  const [dir] = args.words;
  return await readPublisherKeys(dir, args.text("keys") ?? join(dir, KEYS));
}

/** Keys that verify the signatures made with a publisher's keys. */
export function verifying({ hmac, signing }: PublisherKeys): ReleaseKeys {
  return { hmac, trusted: signing.map(({ publicKey }) => publicKey) };
}

/** Shows the progress of hashing in `work`. */
export async function withProgress<T>(
  stages: readonly ("assets" | "hash")[],
  work: (progress: Progress) => Promise<T>,
): Promise<T> {
  using progress = new Progress(stages.map((name) => ({ name, weight: 1 })));
  return await work(progress);
}

/** Prints a report as JSON or as lines; returns the exit code. */
export async function printTreeReport(report: TreeReport, json: boolean): Promise<number> {
  if (json) await printJson(report);
  else {
    for (const { check, subject, ok, detail } of report.results) {
      await print(`${ok ? "ok    " : "NOT OK"} ${check.padEnd(9)} ${subject}${detail ? `: ${detail}` : ""}`);
    }
    const bad = report.results.filter(({ ok }) => !ok).length;
    await print(
      `${report.dir}: ${report.ok ? "ok" : `NOT OK, ${count(bad, "problem")}`}: ${
        count(report.releases.length, "release")
      }`,
    );
  }
  return report.ok ? 0 : 1;
}
