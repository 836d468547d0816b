import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { parseReference } from "../../../../lib/release/environment/mod.ts";

const DIGEST = `sha256:${"0a".repeat(32)}`;

for (
  const [text, canonical, source] of [
    ["golang", "docker.io/library/golang:latest", "docker://docker.io/library/golang:latest"],
    ["golang:1.25", "docker.io/library/golang:1.25", "docker://docker.io/library/golang:1.25"],
    ["docker:27", "docker.io/library/docker:27", "docker://docker.io/library/docker:27"],
    ["docker://ghcr.io/a/b", "ghcr.io/a/b:latest", "docker://ghcr.io/a/b:latest"],
    ["me/tool:x", "docker.io/me/tool:x", "docker://docker.io/me/tool:x"],
    ["localhost/a:b", "localhost/a:b", "docker://localhost/a:b"],
    ["127.0.0.1:5000/a", "127.0.0.1:5000/a:latest", "docker://127.0.0.1:5000/a:latest"],
    [
      `golang:1.25@${DIGEST}`,
      `docker.io/library/golang@${DIGEST}`,
      `docker://docker.io/library/golang@${DIGEST}`,
    ],
    ["oci:/srv/x", "oci:/srv/x", "oci:/srv/x"],
    ["oci:/srv/x:v1", "oci:/srv/x:v1", "oci:/srv/x:v1"],
    ["docker-archive:/srv/x.tar", "docker-archive:/srv/x.tar", "docker-archive:/srv/x.tar"],
    [
      "docker-daemon:app:dev",
      "docker-daemon:docker.io/library/app:dev",
      "docker-daemon:docker.io/library/app:dev",
    ],
  ]
) {
  Deno.test(`${text} names an image`, () => {
    const { canonical: actual, source: from } = parseReference(text);
    assertEquals([actual, from], [canonical, source]);
  });
}

for (
  const text of [
    ...[
      "",
      " ",
      "-x",
      "--authfile=x",
      "a b",
      "UPPER",
      "a:b:c",
      "a@sha256:12",
      "user:pass@host/a",
      "a/../b",
      "a//b",
    ],
    ...["oci:", "oci:/a:b:c", "docker-archive:", "a\nb", `a@${DIGEST}@${DIGEST}`, "x".repeat(2000)],
  ]
) {
  Deno.test(`${JSON.stringify(text.slice(0, 30))} names no image`, () => {
    const { code } = assertThrows(() => parseReference(text), SbxError);
    assertEquals(code, "environment.reference.invalid");
  });
}
