import type { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";

/** Words of the error about a file that is unusable. */
export interface FileError {
  code: string;
  /** content of the file, such as `contract` */
  what: string;
  hint: string;
}

/**
 * Reads a JSON file against a strict schema.
 *
 * @throws {SbxError} `error.code`: the file is missing, not JSON, or has an unknown, missing or wrong field, which is named
 */
export async function readJson<S extends z.ZodType>(
  path: string,
  schema: S,
  error: FileError,
): Promise<z.output<S>> {
  const { code, what, hint } = error;
  let value: unknown;
  try {
    value = JSON.parse(await Deno.readTextFile(path));
  } catch (cause) {
    const problem = cause instanceof SyntaxError ? "is not JSON" : "cannot be read";
    throw new SbxError(code, `the ${what} ${path} ${problem}`, { cause, hint });
  }
  return await checkJson(value, path, schema, error);
}

/** @throws {SbxError} `error.code`: an unknown, missing or wrong field, which is named */
export async function checkJson<S extends z.ZodType>(
  value: unknown,
  path: string,
  schema: S,
  { code, what, hint }: FileError,
): Promise<z.output<S>> {
  const { success, data, error } = schema.safeParse(value);
  if (success) return data;
  const { describe, pathText } = await import("../../base/toml/mod.ts");
  const [problem] = error.issues.flatMap((issue) => describe(issue, schema));
  const place = problem.path.length > 0 ? `${pathText(problem.path)}: ` : "";
  const message = problem.message.replace("must be a table", "must be an object");
  throw new SbxError(code, `the ${what} ${path} is invalid: ${place}${message}`, { cause: error, hint });
}
