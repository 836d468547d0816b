/** Reach of an attacker who has taken over the program that unpacks a layer before its hash is known. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { landlockVersion } from "../../../../ffi/libc/landlock.ts";
import { findProgram } from "../../../../lib/machine/vm/tools.ts";
import { unpackLayers } from "../../../../lib/publish/environment/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { writeLayer } from "../../../helper/tar.ts";

/** Unpacks only where it reached nothing else. `allowed` is tried too: the attempts themselves work. */
const attacker = (root: string, tried: string) =>
  `#!/bin/sh
for place in ${tried}; do cat "$place" >/dev/null 2>&1 && exit 1; done
for place in ${root}/made /tmp/made-by-a-layer; do (echo x > "$place") 2>/dev/null && exit 1; done
perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) or exit 1' && exit 1
[ -z "$SBX_TEST_SECRET" ] || exit 1
exec ${findProgram("gzip")} "$@"
`;

Deno.test({
  name: "a program that unpacks a layer has its input and output, and no file, network or secret",
  ignore: landlockVersion() === 0,
  async fn() {
    const root = await Deno.makeTempDir();
    const path = Deno.env.get("PATH")!;
    const bin = join(root, "tool/bin");
    const unpack = async (tried: string) => {
      await Deno.writeTextFile(join(bin, "gzip"), attacker(root, tried), { mode: 0o700 });
      const layer = await writeLayer(root, [{ name: "file", content: "content" }]);
      return [...(await unpackLayers([layer], join(root, "rootfs.erofs"))).root.children.keys()];
    };
    try {
      await Deno.mkdir(bin, { recursive: true });
      await Deno.writeTextFile(join(root, "secret"), "secret");
      Deno.env.set("PATH", `${bin}:${path}`);
      Deno.env.set("SBX_TEST_SECRET", "of the host");
      assertEquals(await unpack(`${root}/secret /etc/passwd /proc/self/environ`), ["file"]);
      // A file that it may read is found: the attempts are real.
      await Deno.remove(join(root, "rootfs.erofs"));
      await assertRejects(() => unpack(join(bin, "gzip")), SbxError, "gzip cannot unpack a layer");
    } finally {
      Deno.env.set("PATH", path);
      Deno.env.delete("SBX_TEST_SECRET");
      await Deno.remove(root, { recursive: true });
    }
  },
});
