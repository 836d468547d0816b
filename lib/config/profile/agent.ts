/** Schema of `[agent]`: how a coding agent is started in a VM of the profile (docs/guides/agents.md). */
import { z } from "zod";

/** Argument that stands for the task of a run without a terminal. */
export const PROMPT = "{prompt}";
/** In files: the folder that the agent works on, and the end of the ref of its provider's key, by which programs know a key again. */
const PLACE = "{place}", KEY_END = "{key_end}";
/** Length of {@linkcode KEY_END}, in characters. */
const KEY_END_LENGTH = 20;
/** Most `bytes` of all files of an agent. */
const FILES_MAX = 64 * 1024;

const noNul = (max: number) =>
  z.string().max(max).refine((value) => !value.includes("\0"), "must not contain NUL");
const argv = z.array(noNul(4096)).min(1).max(64);

const filePath = z.string().max(256).regex(
  /^\/(?!.*(^|\/)\.\.?(\/|$))[\w@.+/-]*[\w@.+-]$/,
  "must be an absolute path in the guest",
);

export const Agent = z.strictObject({
  /** program and arguments on a terminal */
  command: argv,
  /** program and arguments without a terminal; one of them is {@linkcode PROMPT} */
  headless: argv.refine((words) => words.includes(PROMPT), `needs the argument "${PROMPT}"`),
  /** provider whose key the agent needs; absent: no key */
  provider: z.enum(["anthropic", "openai", "google"]).optional(),
  /** variables of its VM */
  env: z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), noNul(4096)).default({}),
  /** files of its VM, by path, written before its first start */
  files: z.record(filePath, noNul(FILES_MAX)).default({}).refine(
    (files) => Object.values(files).reduce((sum, text) => sum + text.length, 0) <= FILES_MAX,
    `must have at most ${FILES_MAX} characters together`,
  ),
});
export type Agent = z.output<typeof Agent>;

/**
 * The files of an agent's VM. What stands for a folder or a key is replaced with its text, escaped as in JSON.
 *
 * @param facts.ref of the provider's key; absent: it has none
 */
export function agentFiles(
  { files }: Pick<Agent, "files">,
  facts: { place: string; ref?: string },
): Record<string, string> {
  const escaped = (text: string) => JSON.stringify(text).slice(1, -1);
  const [place, end] = [escaped(facts.place), facts.ref?.slice(-KEY_END_LENGTH) ?? ""];
  return Object.fromEntries(
    Object.entries(files).map((
      [path, text],
    ) => [path, text.replaceAll(PLACE, place).replaceAll(KEY_END, end)]),
  );
}
