/** Requests of git among others. */
import { assertEquals } from "@std/assert";
import { gitRequestOf } from "../../../../lib/network/git/mod.ts";

/** `service step`, the ref or fault of a request, and whether git's client reads packets. */
function read(method: string, target: string, headers: Record<string, string> = {}): string | undefined {
  const [path, query = ""] = target.split("?");
  const request = gitRequestOf({ method, path, query, header: (name) => headers[name] });
  if (!request) return undefined;
  const { service, step, isClient, update, fault } = request;
  const told = isClient ? "packets" : "status";
  return [service.slice(4, 11), step, told, fault ?? (update && `${update.kind} ${update.ref}`)].join(" ")
    .trim();
}

const TYPE = { "content-type": "application/x-git-receive-pack-request" };

Deno.test("requests of smart HTTP are recognized in every spelling of their path", () => {
  assertEquals(read("GET", "/o/r.git/info/refs?service=git-receive-pack"), "receive list packets");
  assertEquals(read("GET", "/o/r.git/info/refs?service=git-upload-pack"), "upload- list packets");
  assertEquals(
    read("GET", "/r/info/refs?service=git-upload-pack&service=git%2Dreceive-pack"),
    "receive list packets",
  );
  assertEquals(read("POST", "/o/r.git/git-upload-pack"), "upload- call status");
  for (const name of ["git-receive-pack", "Git-Receive-Pack", "git-receive-pack/", "git-receive-pack;x=y"]) {
    assertEquals(read("POST", `/o/r.git/${name}`, TYPE), "receive call packets", name);
  }
  assertEquals(read("POST", "/o%2Fr.git%2Fgit-receive-pack"), "receive call status");
  assertEquals(read("POST", "/r/git-receive-pack%3Fx"), "receive call status");
  assertEquals(read("PUT", "/r/git-receive-pack"), "receive call status");
  assertEquals(read("POST", "/anything", TYPE), "receive call packets");
  assertEquals(
    read("POST", "/x%20y", { "content-type": "Application/X-Git-Receive-Pack-Request; a=b" }),
    "receive call packets",
  );
});

Deno.test("writes of refs by WebDAV and by an API name their ref", () => {
  assertEquals(read("PUT", "/r.git/refs/heads/main"), "receive write status update refs/heads/main");
  assertEquals(read("LOCK", "/r.git/refs/heads/main"), "receive write status update refs/heads/main");
  assertEquals(read("DELETE", "/r.git/refs/heads%2Fmain"), "receive write status delete refs/heads/main");
  assertEquals(
    read("PATCH", "/repos/o/r/git/refs/heads/main"),
    "receive write status update refs/heads/main",
  );
  const destination = { destination: "http://git.example.com/r.git/refs/heads/main" };
  assertEquals(read("MOVE", "/r.git/refs/tmp", destination), "receive write status update refs/heads/main");
  assertEquals(read("move", "/r.git/tmp%20x", destination), "receive write status update refs/heads/main");
  for (const name of ["packed-refs", "HEAD", "info/refs"]) {
    assertEquals(read("PUT", `/r.git/${name}`), "receive write status a write of a file that holds refs");
  }
});

Deno.test("other requests are not taken for git's", () => {
  for (
    const target of [
      "/",
      "/o/r/info/refs",
      "/o/r/info/refs?service=other",
      "/docs/git-receive-pack",
      "/refs/heads/main",
    ]
  ) {
    assertEquals(read("GET", target), undefined, target);
  }
  for (
    const target of [
      "/api",
      "/docs/git-receive-pack-howto",
      "/r.git/info/lfs/objects/batch",
      "/a%2Fb",
      "/r/refs/heads",
    ]
  ) {
    assertEquals(read("POST", target), undefined, target);
  }
  assertEquals(read("PUT", "/o/r.git/info/lfs/objects/4d7a"), undefined);
});
