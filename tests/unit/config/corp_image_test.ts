import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type CorpState, requireCorpImage } from "../../../lib/config/corp/mod.ts";

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
