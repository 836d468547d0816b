import { assertEquals } from "@std/assert";
import { baseReferences } from "../../../../lib/publish/build/bases.ts";

const names = (dockerfile: string, args: Record<string, string> = {}) =>
  baseReferences(dockerfile, args).map(({ canonical }) => canonical);

Deno.test("images of FROM, COPY and mounts are found, and stages are none", () => {
  const dockerfile = `# syntax=docker/dockerfile:1
FROM --platform=linux/amd64 golang:1.25 AS Build
RUN --mount=type=bind,from=registry.example/tools:v2,target=/t --mount=type=cache,target=/c make
FROM build as second
COPY --chown=1:1 --from=ghcr.io/owner/name@sha256:${"a".repeat(64)} /a /b
COPY --from=build /x /y
COPY --from=0 /x /y
COPY from=none /z
FROM scratch
`;
  assertEquals(names(dockerfile), [
    "docker.io/library/golang:1.25",
    "registry.example/tools:v2",
    `ghcr.io/owner/name@sha256:${"a".repeat(64)}`,
  ]);
});

Deno.test("arguments before the first FROM count, with their defaults and the person's values", () => {
  const dockerfile = `ARG REGISTRY=registry.example
ARG NAME="app" TAG
FROM \${REGISTRY}/$NAME:\${TAG:-v1}
ARG REGISTRY=late.example
FROM \${REGISTRY}/$NAME:\${TAG:+tagged}`;
  assertEquals(names(dockerfile), ["registry.example/app:v1"]);
  assertEquals(names(dockerfile, { TAG: "v2", REGISTRY: "b.example" }), [
    "b.example/app:v2",
    "b.example/app:tagged",
  ]);
});

Deno.test("lines go on, comments between them are none, and nonsense names no image", () => {
  assertEquals(names("FROM \\\n # why\n registry.example/a:1 \\\n AS x\r\nFROM x"), ["registry.example/a:1"]);
  assertEquals(names("# escape=`\nFROM `\n registry.example/a:1"), ["registry.example/a:1"]);
  assertEquals(names("FROM\nFROM $\{\nFROM A/B\nfrom oci:/tmp/x\nFROM localhost/own\nARG"), []);
});
