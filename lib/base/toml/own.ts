/** TOML files of tables that one process changes and a team reviews. */
import { dirname } from "node:path";
import type { z } from "zod";
import { asSbxError, ignore, SbxError } from "../error/mod.ts";
import { accessProblem, writeAtomic } from "../home/mod.ts";
import { parseToml, type TomlDocument } from "./document.ts";
import { checkToml } from "./problem.ts";
import { readToml } from "./read.ts";

/** A file that counts only while its owner alone may write it. */
export class OwnToml<S extends z.ZodType> {
  readonly path: string;
  readonly #schema: S;
  readonly #code: string;
  readonly #meanwhile: string;
  #last: Promise<unknown> = Promise.resolve();

  /**
   * @param code code of the errors, such as `detection.exceptions`
   * @param meanwhile what holds until the file is repaired, such as "it excepts nothing"
   */
  constructor(path: string, { schema, code, meanwhile }: { schema: S; code: string; meanwhile: string }) {
    this.path = path;
    this.#schema = schema;
    this.#code = code;
    this.#meanwhile = meanwhile;
  }

  /**
   * The checked content; of a file that is absent, as of an empty one.
   * @throws {SbxError} the code of this file
   */
  async read(): Promise<z.output<S>> {
    return this.#check(await this.#document());
  }

  /**
   * Edits the file after all earlier edits.
   *
   * @param edit returns the new document, and the result of the edit
   * @throws {SbxError} the code of this file: it is invalid, before or after; errors of `edit`
   */
  edit<R>(
    edit: (document: TomlDocument, content: z.output<S>) => Promise<[TomlDocument, R]> | [TomlDocument, R],
  ): Promise<R> {
    const done = this.#last.then(async () => {
      const before = await this.#document();
      const [after, result] = await edit(before, this.#check(before));
      this.#check(after);
      await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
      // A link into a folder of a team's stays one.
      await writeAtomic(await Deno.realPath(this.path).catch(() => this.path), after.text);
      return result;
    });
    this.#last = done.catch(ignore("the caller has the failure; the next edit goes on"));
    return done;
  }

  async #document(): Promise<TomlDocument> {
    const info = await Deno.stat(this.path).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw asSbxError(error, `reading ${this.path}`);
    });
    if (!info) return parseToml("", this.path);
    const refused = accessProblem(this.path, info, { keep: "unchanged" });
    if (refused) {
      throw new SbxError(this.#code, `${this.path} ${refused.problem}`, {
        hint: `${refused.hint}; until then ${this.#meanwhile}`,
      });
    }
    return await readToml(this.path);
  }

  #check(document: TomlDocument): z.output<S> {
    return checkToml(document, this.#schema, this.#code);
  }
}
