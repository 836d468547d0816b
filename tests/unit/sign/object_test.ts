/** The reader of commits and tags: what git writes is read, and nothing else is signed. */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { PAYLOAD_MAX, readObject } from "../../../lib/sign/mod.ts";
import { commitPayload, makeKey, must } from "../../helper/signing.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const ANN = { name: "Ann", email: "ann@example.com" };
const TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const WHO = "Ann <ann@example.com> 1700000000 +0100";
const COMMIT = `tree ${TREE}\nauthor ${WHO}\ncommitter ${WHO}\n\nA subject\n\nA body\n`;
const TAG = `object ${TREE}\ntype commit\ntag v1\ntagger ${WHO}\n\nA release\n`;

Deno.test("commits and tags of git are read", async () => {
  assertEquals(readObject(commitPayload()), {
    kind: "commit",
    author: ANN,
    committer: ANN,
    subject: "Add a file",
    object: TREE,
    parents: ["1".repeat(40)],
  });
  assertEquals(readObject(bytes(TAG)), {
    kind: "tag",
    author: ANN,
    committer: ANN,
    subject: "A release",
    object: TREE,
    parents: [],
    tag: "v1",
  });
  const dir = await Deno.makeTempDir();
  try {
    const key = await makeKey(dir);
    const git = (...args: string[]) =>
      must(["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", ...args], { cwd: dir });
    for (const format of ["sha1", "sha256"]) {
      await git("init", "-q", `--object-format=${format}`, format);
      const repo = (...args: string[]) => git("-C", format, ...args);
      await repo("commit", "-q", "--allow-empty", "-m", "one");
      await repo("-c", "gpg.format=ssh", "-c", `user.signingkey=${key}`, "tag", "-s", "-m", "the tag", "v1");
      await repo("checkout", "-q", "--orphan", "other");
      await repo("commit", "-q", "--allow-empty", "-m", "two");
      await repo("merge", "-q", "--no-edit", "--allow-unrelated-histories", "v1");
      const merge = await repo("cat-file", "commit", "HEAD");
      assertStringIncludes(merge, "mergetag object");
      assertEquals(readObject(bytes(merge)).parents.length, 2);
      await repo("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "--allow-empty", "-m", "three");
      assertEquals(readObject(bytes(await repo("cat-file", "commit", "HEAD"))).subject, "three");
      await repo("commit", "-q", "--allow-empty", "-m", "four\n  and five \n\nA body");
      const subject = (await repo("log", "-1", "--format=%s")).trimEnd();
      assertEquals(readObject(bytes(await repo("cat-file", "commit", "HEAD"))).subject, subject);
      const signed = await repo("cat-file", "tag", "v1");
      assertThrows(() => readObject(bytes(signed)), SbxError, "signature already");
      assertEquals(readObject(bytes(signed.replace(/-----BEGIN[^]*/, ""))).tag, "v1");
      await repo("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", "");
      assertEquals(readObject(bytes(await repo("cat-file", "commit", "HEAD"))).subject, "");
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("texts of a commit cannot move the cursor or turn a line around", () => {
  const { subject, author } = readObject(
    commitPayload({
      subject: "\x1b[2Jok \u202egnp\u200b",
      author: "A\x1b]0;x\x07n\u2060n <ann\u2066@example.com>",
    }),
  );
  assertEquals(subject, "�[2Jok �gnp�");
  assertEquals(author, { name: "A�]0;x�n�n", email: "ann�@example.com" });
});

const REFUSED: [string, string | Uint8Array, string][] = [
  ["nothing", "", "headers do not end"],
  ["a text", "pay 100 to Bob\n", '"object"'],
  ["an empty head", "\n\n", '"object"'],
  ["a challenge of SSH's login", new Uint8Array([0, 0, 0, 32, 1, 50]), "NUL"],
  ["bytes that are no text", new Uint8Array([...bytes(COMMIT), 0xff, 0xfe]), "utf-8"],
  ["an encoding that none knows", COMMIT.replace("\n\n", "\nencoding x-odd\n\n"), "x-odd"],
  ["a NUL in the message", COMMIT + "\0hidden", "NUL"],
  ["headers without an end", COMMIT.slice(0, 60), "headers do not end"],
  ["a tree that is none", COMMIT.replace(TREE, "HEAD"), '"tree" names no object'],
  ["a second tree", `tree ${TREE}\n${COMMIT}`, '"author"'],
  ["no author", COMMIT.replace(/author.*\n/, ""), '"author"'],
  ["two authors", COMMIT.replace(/(author.*\n)/, "$1$1"), '"committer"'],
  ["the committer first", COMMIT.replace(/(author.*\n)(committer.*\n)/, "$2$1"), '"author"'],
  ["a person without a time", COMMIT.replace(" 1700000000 +0100", ""), "not a name with an email"],
  ["a signature within", COMMIT.replace("\n\n", "\ngpgsig -----BEGIN SSH\n\n"), "signed already"],
  ["a signature of SHA-256", COMMIT.replace("\n\n", "\ngpgsig-sha256 -----BEGIN\n\n"), "signed already"],
  ["another header", COMMIT.replace("\n\n", "\nx-note \x1b[2J\n\n"), "a header that sbx does not sign"],
  ["a folded header of its own", COMMIT.replace("\n\n", "\n folded\n\n"), "a header"],
  ["a tag of an odd type", TAG.replace("commit", "refs"), "not one of git"],
  ["a tag without a tagger", TAG.replace(/tagger.*\n/, ""), '"tagger"'],
  ["a signed tag", `${TAG}-----BEGIN PGP SIGNATURE-----\n`, "signature already"],
  ["a tag signed by SSH", `${TAG}-----BEGIN SSH SIGNATURE-----\n`, "signature already"],
  ["10 MB", COMMIT + "x".repeat(10_000_000), `the limit is ${PAYLOAD_MAX}`],
  ["100 parents", COMMIT.replace("\n", `\n${`parent ${TREE}\n`.repeat(100)}`), "more than 64 parents"],
];

for (const [name, payload, problem] of REFUSED) {
  Deno.test(`not signed: ${name}`, () => {
    const error = assertThrows(
      () => readObject(typeof payload === "string" ? bytes(payload) : payload),
      SbxError,
    );
    assertEquals(error.code, "sign.invalid");
    assertStringIncludes(error.message, problem);
  });
}
