/**
 * Commits and tags as git gives them to a program that signs, read strictly: nothing else is signed, so
 * the key can make no signature for anything else.
 */
import { SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import { IDENT_MAX, PARENTS_MAX, PAYLOAD_MAX, SUBJECT_MAX } from "./limit.ts";

/** A person of a commit or tag. */
export interface Ident {
  name: string;
  email: string;
}

/** Facts that a person decides on; texts are safe to show. */
export interface GitObject {
  kind: "commit" | "tag";
  /** of a tag: the tagger, twice */
  author: Ident;
  committer: Ident;
  /** first line of the message */
  subject: string;
  /** tree of a commit; object of a tag */
  object: string;
  parents: string[];
  /** name of a tag */
  tag?: string;
}

const OBJECT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
/** `NAME <EMAIL> SECONDS ZONE`, as git writes it. */
const IDENT = /^([^<>]*) <([^<>]*)> \d{1,15} [+-]\d{4}$/;
/** Beginnings of signatures that git finds in a message of a tag. */
const SIGNATURE = /^-----BEGIN (?:PGP|SSH|SIGNED) (?:SIGNATURE|MESSAGE)-----/m;

/**
 * Reads what git gives to be signed.
 *
 * @throws {SbxError} `sign.invalid`: it is no commit and no tag, is signed already, or is too long
 */
export function readObject(payload: Uint8Array): GitObject {
  if (payload.length > PAYLOAD_MAX) {
    throw new SbxError("sign.invalid", `it has ${payload.length} bytes, and the limit is ${PAYLOAD_MAX}`, {
      hint: "shorten the message, or commit without a signature: git commit --no-gpg-sign",
    });
  }
  if (payload.includes(0)) throw invalid("it has a NUL byte");
  const text = textOf(payload);
  const end = text.indexOf("\n\n");
  // A message may be empty; the line feed that ends the headers may not.
  if (end < 0 && !text.endsWith("\n")) throw invalid("its headers do not end");
  const head = end < 0 ? text.slice(0, -1) : text.slice(0, end);
  const fields = new Fields(head);
  const message = end < 0 ? "" : text.slice(end + 2);
  return text.startsWith("tree ") ? commitOf(fields, message) : tagOf(fields, message);
}

function commitOf(fields: Fields, message: string): GitObject {
  const object = fields.object("tree");
  const parents: string[] = [];
  while (fields.next === "parent") parents.push(fields.object("parent"));
  if (parents.length > PARENTS_MAX) throw invalid(`it has more than ${PARENTS_MAX} parents`);
  const author = fields.ident("author");
  const committer = fields.ident("committer");
  if (fields.next === "encoding") fields.take("encoding");
  // A merged tag with its own signature, folded.
  while (fields.next === "mergetag") fields.takeFolded("mergetag");
  fields.requireEnd();
  return { kind: "commit", author, committer, subject: subjectOf(message), object, parents };
}

function tagOf(fields: Fields, message: string): GitObject {
  const object = fields.object("object");
  const type = fields.take("type");
  if (!/^(?:commit|tree|blob|tag)$/.test(type)) throw invalid("its type is not one of git");
  const tag = shorten(fields.take("tag"), IDENT_MAX);
  const tagger = fields.ident("tagger");
  fields.requireEnd();
  if (SIGNATURE.test(message)) throw invalid("its message has a signature already");
  return {
    kind: "tag",
    author: tagger,
    committer: tagger,
    subject: subjectOf(message),
    object,
    parents: [],
    tag,
  };
}

/** The lines before the message, in the one order in which git writes them. */
class Fields {
  readonly #lines: string[];
  #at = 0;

  constructor(head: string) {
    this.#lines = head.split("\n");
  }

  /** Name of the next one. */
  get next(): string | undefined {
    return this.#lines[this.#at]?.split(" ", 1)[0];
  }

  take(name: string): string {
    const line = this.#lines[this.#at++];
    if (line?.startsWith(`${name} `)) return line.slice(name.length + 1);
    throw invalid(`"${name}" is not where git writes it`);
  }

  takeFolded(name: string): void {
    this.take(name);
    while (this.#lines[this.#at]?.startsWith(" ")) this.#at++;
  }

  object(name: string): string {
    const value = this.take(name);
    if (OBJECT.test(value)) return value;
    throw invalid(`"${name}" names no object`);
  }

  ident(name: string): Ident {
    const found = IDENT.exec(this.take(name));
    if (!found) throw invalid(`"${name}" is not a name with an email address and a time`);
    return { name: shorten(found[1], IDENT_MAX), email: shorten(found[2], IDENT_MAX) };
  }

  requireEnd(): void {
    const { next } = this;
    if (next === undefined) return;
    throw invalid(
      /^gpgsig/.test(next)
        ? "it is signed already"
        : `it has a header that sbx does not sign: ${plain(next).slice(0, 40)}`,
    );
  }
}

/** The text in its own encoding. */
function textOf(payload: Uint8Array): string {
  // Names of headers and encodings are ASCII, whatever the rest is.
  const latin = new TextDecoder("latin1").decode(payload);
  const head = latin.slice(0, Math.max(0, latin.indexOf("\n\n")));
  const encoding = /^encoding (\S{1,40})$/m.exec(head)?.[1] ?? "utf-8";
  try {
    return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(payload);
  } catch {
    throw invalid(`it cannot be read as ${plain(encoding)}`);
  }
}

/** The subject as git takes it: the lines before the first empty one. */
function subjectOf(message: string): string {
  const lines = message.trimStart().split("\n").map((line) => line.trimEnd());
  const end = lines.indexOf("");
  return shorten(lines.slice(0, end < 0 ? undefined : end).join(" "), SUBJECT_MAX);
}

function shorten(text: string, max: number): string {
  const shown = plain(text);
  return shown.length > max ? `${shown.slice(0, max - 1)}…` : shown;
}

function invalid(problem: string): SbxError {
  return new SbxError("sign.invalid", `this is not a commit or tag that can be signed: ${problem}`, {
    hint: "the key signs git commits and tags only; sign with git commit -S or git tag -s",
  });
}
