/** Schema of `[agent]`: how a coding agent is started in a VM of the profile (docs/agents.md). */
import { z } from "zod";

/** Argument that stands for the task of a run without a terminal. */
export const PROMPT = "{prompt}";
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
  /** provider whose key the agent needs; absent: none */
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
