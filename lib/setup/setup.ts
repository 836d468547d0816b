/** The setup of one agent: all that goes, stays and is asked about, and its files for a VM. */
import { blake3 } from "../base/hash/mod.ts";
import { canonicalJson } from "../base/json/mod.ts";
import { decodeUtf8 } from "../base/text/mod.ts";
import type { AgentSetup } from "../config/profile/mod.ts";
import { GUEST_HOME, type HostPath, mapPaths, pathsIn } from "./path.ts";
import { runningKey } from "./front_matter.ts";
import { type PlacedProgram, programsIn, type SetupProgram } from "./program.ts";
import { type FoundSecret, type RefOf, replaceSecrets, WITHHELD } from "./secret.ts";
import { type LeftOut, readSources, type SourceFile } from "./source.ts";
import {
  entriesOf,
  findValues,
  formatSettings,
  type KeyPath,
  layOver,
  mapTexts,
  onlyAt,
  parseSettings,
  pathName,
  type Table,
  without,
} from "./value.ts";

/** A file of a setup, as a person sees it. */
export interface SetupFile {
  path: string;
  /** `bytes` on the host */
  size: number;
  /** blake3 of its bytes on the host */
  digest: string;
  is_executable: boolean;
}

/** A file for the guest. */
export interface GuestFile {
  /** absolute, in the guest */
  path: string;
  bytes: Uint8Array;
  mode: "0600" | "0700";
}

/** The folders that paths of settings are below. */
export interface SetupPlaces {
  /** home of the person */
  home: string;
  /** folder that the agent works on, on the host */
  repository: string;
  /** places outside of the home that variables name, by path below it */
  moved?: ReadonlyMap<string, string>;
}

/** A file's content, ready but for paths and answers. */
interface Prepared {
  source: SourceFile;
  text?: string;
  settings?: Table;
  /** id of the program that it is, or belongs to */
  program?: string;
}

const latin1 = new TextDecoder("latin1");
const encoder = new TextEncoder();

/** The setup of one agent, read once. */
export class Setup {
  readonly files: SetupFile[] = [];
  readonly leftOut: LeftOut[];
  readonly secrets: FoundSecret[] = [];
  readonly paths: HostPath[] = [];
  /** of all that was read, and of how it is treated: an answer holds as long as it stays the same */
  readonly hash: string;
  readonly #programs: PlacedProgram[] = [];
  readonly #prepared: Prepared[] = [];
  readonly #declared: AgentSetup;
  readonly #places: SetupPlaces;

  private constructor(
    readonly agent: string,
    declared: AgentSetup,
    places: SetupPlaces,
    { files, leftOut }: { files: SourceFile[]; leftOut: LeftOut[] },
  ) {
    this.#declared = declared;
    this.#places = places;
    this.leftOut = [...leftOut];
    const read = files.map((
      { path, kind, bytes, isExecutable },
    ) => [path, kind, isExecutable, blake3(bytes)]);
    this.hash = blake3(canonicalJson(["sbx.setup.v1", agent, declared, read]));
  }

  /**
   * Reads the setup of an agent.
   *
   * @param declared `[agent.setup]` of its profile
   * @throws {SbxError} `agent.setup_foreign`, `agent.setup_limit`
   */
  static async read(
    agent: string,
    declared: AgentSetup,
    { refOf, ...places }: SetupPlaces & { refOf: RefOf },
  ): Promise<Setup> {
    const sources = await readSources(places.home, declared, places.moved);
    const setup = new Setup(agent, declared, places, sources);
    for (const source of sources.files) await setup.#prepare(source, refOf);
    return setup;
  }

  get programs(): readonly SetupProgram[] {
    return this.#programs.map(({ path: _, ...program }) => program);
  }

  /**
   * The files of a VM: the person's, and sbx's own over them.
   *
   * @param place of the repository in the guest
   * @param forced files of the agent's profile, by path in the guest: their settings
   * count, whatever the person has
   * @param approved ids of the programs that the person agreed to
   */
  async render(
    { place, forced, approved }: {
      place: string;
      forced: Readonly<Record<string, string>>;
      approved: ReadonlySet<string>;
    },
  ): Promise<GuestFile[]> {
    const folders = [
      { from: this.#places.repository, to: place },
      ...[...this.#places.moved ?? []].map(([path, from]) => ({ from, to: `${GUEST_HOME}/${path}` })),
      { from: this.#places.home, to: GUEST_HOME },
    ];
    const rest = new Map(Object.entries(forced));
    const tables = new Map<string, { format: "json" | "toml" | "yaml"; value: Table }>();
    const files: GuestFile[] = [];
    for (const { source, text, settings, program } of this.#prepared) {
      const { path, bytes, isExecutable } = source;
      const guestPath = `${GUEST_HOME}/${path}`;
      if (!settings) {
        if (program !== undefined && !approved.has(program)) continue;
        const own = rest.get(guestPath);
        rest.delete(guestPath);
        const content = text === undefined
          ? bytes
          : encoder.encode(own === undefined ? text : `${text}\n\n${own}`);
        files.push({ path: guestPath, bytes: content, mode: isExecutable ? "0700" : "0600" });
        continue;
      }
      const { format, into = path } = this.#declared.settings[path];
      const refused = this.#programs.filter((each) => each.file === path && !approved.has(each.id));
      const allowed = without(settings, refused.map(({ path }) => path!));
      const mapped = mapTexts(allowed, (text) => mapPaths(text, folders)) as Table;
      const target = `${GUEST_HOME}/${into}`;
      tables.set(target, { format, value: layOver(tables.get(target)?.value ?? {}, mapped) });
    }
    for (const [path, { format, value }] of tables) {
      const own = rest.get(path);
      rest.delete(path);
      const whole = own === undefined ? value : layOver(value, await parseSettings(format, own));
      files.push({ path, bytes: encoder.encode(await formatSettings(format, whole)), mode: "0600" });
    }
    for (const [path, text] of rest) files.push({ path, bytes: encoder.encode(text), mode: "0600" });
    return files;
  }

  async #prepare(source: SourceFile, refOf: RefOf): Promise<void> {
    const { path, bytes, isExecutable, kind } = source;
    const text = decodeUtf8(bytes);
    const prepared = kind === "settings"
      ? await this.#prepareSettings(source, text, refOf)
      : await this.#prepareText(source, text, refOf);
    if (!prepared) return;
    this.#prepared.push(prepared);
    this.files.push({ path, size: bytes.length, digest: blake3(bytes), is_executable: isExecutable });
  }

  async #prepareText(
    source: SourceFile,
    text: string | undefined,
    refOf: RefOf,
  ): Promise<Prepared | undefined> {
    const { path, bytes, kind } = source;
    if (text === undefined) {
      // A secret within other bytes cannot be taken out of them.
      if (replaceSecrets(latin1.decode(bytes), refOf).secrets.length > 0) {
        this.leftOut.push({ path, reason: "has a secret among bytes that are not text" });
        return undefined;
      }
    }
    const replaced = text === undefined ? undefined : replaceSecrets(text, refOf);
    let [line, at] = [1, 0];
    for (const { start, ...secret } of replaced?.secrets ?? []) {
      line += text!.slice(at, start).split("\n").length - 1;
      at = start;
      this.secrets.push({ file: path, place: `line ${line}`, ...secret });
    }
    const why = kind === "program" ? "the agent runs it" : await this.#frontMatter(text ?? "");
    const program = kind === "program" ? this.#programOf(path) : why && path;
    if (program && why && this.#programs.every(({ id }) => id !== program)) {
      this.#programs.push({ id: program, kind: "file", file: program, line: why });
    }
    return { source, text: replaced?.text, program };
  }

  /** The program that a file of such a folder belongs to: the file or folder directly in it. */
  #programOf(path: string): string {
    const folder = this.#declared.programs.find((each) => path.startsWith(`${each}/`));
    return folder === undefined ? path : `${folder}/${path.slice(folder.length + 1).split("/")[0]}`;
  }

  /** Why a text of Markdown runs something. */
  async #frontMatter(text: string): Promise<string | undefined> {
    const keys = this.#declared.front_matter;
    const key = keys.length > 0 ? await runningKey(text, keys) : undefined;
    return key === undefined ? undefined : `its head has ${key}`;
  }

  async #prepareSettings(
    source: SourceFile,
    text: string | undefined,
    refOf: RefOf,
  ): Promise<Prepared | undefined> {
    const { path } = source;
    const declared = this.#declared.settings[path];
    let all: Table;
    try {
      if (text === undefined) throw new SyntaxError("is not text");
      all = await parseSettings(declared.format, text);
    } catch {
      this.leftOut.push({ path, reason: `cannot be read as ${declared.format}` });
      return undefined;
    }
    const pathsOf = (value: unknown, patterns: readonly string[]) =>
      patterns.flatMap((pattern) => findValues(value, pattern).map(({ path }) => path));
    const chosen = declared.only.length > 0 ? onlyAt(all, pathsOf(all, declared.only)) : all;
    if (declared.only.length > 0) {
      const others = Object.keys(all).filter((key) => !Object.hasOwn(chosen, key)).length;
      if (others > 0) {
        this.leftOut.push({ path, reason: `all but ${declared.only.join(", ")}` });
      }
    }
    const never = pathsOf(chosen, declared.never);
    for (const each of never) this.leftOut.push({ path: `${path}: ${pathName(each)}`, reason: "never goes" });
    const kept = without(chosen, never);
    const settings = this.#withoutSecrets(path, kept, refOf);
    if (Object.keys(settings).length === 0) return undefined;
    this.#programs.push(...programsIn(path, settings, declared));
    mapTexts(settings, (text, keys) => {
      const found = pathsIn(text, this.#places).map((each) => ({ file: path, key: pathName(keys), ...each }));
      this.paths.push(...found);
      return text;
    });
    return { source, settings };
  }

  #withoutSecrets(file: string, value: unknown, refOf: RefOf): Table {
    const named = secretKeys(value, refOf);
    for (const path of named) {
      this.secrets.push({ file, place: pathName([...path.slice(0, -1), WITHHELD]), outcome: "withheld" });
    }
    return mapTexts(without(value, named), (text, keys) => {
      // An element of a list belongs to the name of the list.
      const name = keys.findLast((key) => !/^\d+$/.test(key)) ?? "";
      const { text: replaced, secrets } = replaceSecrets(text, refOf, name, wordBefore(value, keys));
      for (const { start: _, ...secret } of secrets) {
        this.secrets.push({ file, place: pathName(keys), ...secret });
      }
      return replaced;
    }) as Table;
  }
}

/** The word before one in a list, such as the option of a command line that it is the value of. */
function wordBefore(root: unknown, keys: KeyPath): string | undefined {
  const list = keys.slice(0, -1).reduce<unknown>((value, key) => {
    return Array.isArray(value) ? value[Number(key)] : (value as Table)[key];
  }, root);
  const before = Array.isArray(list) ? list[Number(keys.at(-1)) - 1] : undefined;
  return typeof before === "string" ? before : undefined;
}

/** Paths of keys that are secrets themselves. */
function secretKeys(value: unknown, refOf: RefOf, path: KeyPath = []): KeyPath[] {
  return entriesOf(value).flatMap(([key, each]) => {
    const at = [...path, key];
    return replaceSecrets(key, refOf).secrets.length > 0 ? [at] : secretKeys(each, refOf, at);
  });
}
