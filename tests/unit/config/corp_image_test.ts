import { assertEquals, assertThrows } from "@std/assert";
import { makeSigner } from "../../helper/image_signature.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { keyFingerprint } from "../../../lib/base/hash/mod.ts";
import { type CorpState, requireCorpImage, signersOf } from "../../../lib/config/corp/mod.ts";

const PIN = `sha256:${"a".repeat(64)}`, OTHER = `sha256:${"b".repeat(64)}`;

function allowing(images?: string[]): CorpState {
  return { status: "ok", config: { file: { corp: { limits: { images } } } } } as unknown as CorpState;
}

for (
  const [images, reference, digest, isAllowed] of [
    [undefined, "oci:/srv/x", PIN, true],
    [[], "docker.io/library/a:1", PIN, false],
    [["docker.io"], "docker.io/library/a:1", PIN, true],
    [["docker.io/library"], "docker.io/library/a@" + PIN, PIN, true],
    [["docker.io/lib"], "docker.io/library/a:1", PIN, false],
    [["docker.io"], "docker.io.example.com/a:1", PIN, false],
    [["127.0.0.1:5000"], "127.0.0.1:5000/a:1", PIN, true],
    [["docker.io/library/a@" + PIN], "docker.io/library/a:1", PIN, true],
    [["docker.io/library/a@" + PIN], "docker.io/library/a:1", undefined, true],
    [["docker.io/library/a@" + PIN], "docker.io/library/a:1", OTHER, false],
    [["docker.io/library/a@" + PIN], "docker.io/library/a@" + OTHER, undefined, false],
    [["docker.io/library/a@" + PIN], "docker.io/library/a/b:1", PIN, false],
    [["docker.io"], "oci:/docker.io/a", PIN, false],
  ] satisfies [string[] | undefined, string, string | undefined, boolean][]
) {
  const what = `${reference.slice(0, 40)}${digest ? ` of ${digest.slice(7, 9)}` : ""}`;
  Deno.test(`corp's images ${images?.join().slice(0, 40)} ${isAllowed ? "allow" : "refuse"} ${what}`, () => {
    const require = () => requireCorpImage(allowing(images), { reference, ...(digest && { digest }) });
    if (isAllowed) require();
    else assertEquals(assertThrows(require, SbxError).code, "corp.image");
  });
}

const signer = makeSigner().publicKey, retired = makeSigner().publicKey;
const REGISTRY = "registry.example.com";

function requiring(limits: Record<string, unknown>): CorpState {
  return { status: "ok", config: { file: { corp: { limits } } } } as unknown as CorpState;
}

const signed = requiring({
  image_signatures: { [REGISTRY]: [signer], [`${REGISTRY}/open`]: [], localhost: [], "docker-archive": [] },
});

for (
  const [reference, key, isAllowed] of [
    [`${REGISTRY}/app:1`, signer, true],
    [`${REGISTRY}/app:1`, retired, false],
    [`${REGISTRY}/app:1`, undefined, false],
    [`${REGISTRY}/open/app:1`, undefined, true],
    [`${REGISTRY}/opened:1`, undefined, false],
    ["docker.io/library/golang:1", undefined, false],
    ["localhost/app:1", undefined, true],
    ["docker-archive:/srv/a.tar", undefined, true],
    ["oci:/srv/a:v1", undefined, false],
    ["docker-daemon:docker.io/library/a:1", undefined, false],
  ] satisfies [string, string | undefined, boolean][]
) {
  const by = key === undefined ? "no key" : key === signer ? "the signer" : "an earlier signer";
  Deno.test(`corp ${isAllowed ? "allows" : "refuses"} ${reference}, signed by ${by}`, () => {
    const repository = reference.replace(/:[^:/]*$/, "");
    const signatures = key === undefined ? [] : [{ repository, key: keyFingerprint(key) }];
    const require = () => requireCorpImage(signed, { reference, digest: PIN, provenance: { signatures } });
    if (isAllowed) require();
    else assertEquals(assertThrows(require, SbxError).code, "corp.image_signature");
  });
}

Deno.test("a signature for one repository is none for another, which has the same image", () => {
  const signatures = [{ repository: `${REGISTRY}/app`, key: keyFingerprint(signer) }];
  const require = () =>
    requireCorpImage(signed, { reference: `${REGISTRY}/other:1`, digest: PIN, provenance: { signatures } });
  assertEquals(assertThrows(require, SbxError).code, "corp.image_signature");
});

Deno.test("the longest name decides who signs; without a table nobody does", () => {
  assertEquals(signersOf(signed, `${REGISTRY}/app:1`), { scope: REGISTRY, keys: [signer] });
  assertEquals(signersOf(signed, `${REGISTRY}/open/app:1`), undefined);
  assertEquals(signersOf(requiring({}), "oci:/srv/a"), undefined);
});

Deno.test("base images of a build need what images need", () => {
  const withBase = (base: Record<string, unknown>) => () =>
    requireCorpImage(signed, {
      reference: "localhost/app:1",
      digest: PIN,
      provenance: { build: { bases: [{ reference: `${REGISTRY}/base:1`, digest: PIN, ...base }] } },
    });
  assertEquals(assertThrows(withBase({}), SbxError).code, "corp.image_signature");
  withBase({ signature: { repository: `${REGISTRY}/base`, key: keyFingerprint(signer) } })();
  assertThrows(withBase({ reference: "golang:1" }), SbxError, "docker.io/library/golang:1");
});

Deno.test("corp can require digests, also of base images", () => {
  const pinned = requiring({ image_digests: true });
  requireCorpImage(pinned, { reference: `docker.io/library/golang@${PIN}` });
  assertThrows(
    () => requireCorpImage(pinned, { reference: "docker.io/library/golang:1" }),
    SbxError,
    "by digest",
  );
  requireCorpImage(pinned, { reference: "localhost/app:1", digest: PIN });
  const provenance = { build: { bases: [{ reference: "golang:1", digest: PIN }] } };
  const require = () => requireCorpImage(pinned, { reference: "localhost/app:1", digest: PIN, provenance });
  assertThrows(require, SbxError, "base images by digest");
});
