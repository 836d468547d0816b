import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { checkUserNamespace, type UserHost } from "../../../../lib/machine/vm/tools.ts";

const USER = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n";
const IDS = "bob:100000:65536\nada:165536:65536\n";

function host(change: Partial<UserHost> = {}, files: Record<string, string> = {}): UserHost {
  const all: Record<string, string> = {
    "/etc/passwd": USER,
    "/etc/subuid": IDS,
    "/etc/subgid": IDS,
    ...files,
  };
  return { uid: 1000, find: (name) => `/usr/bin/${name}`, read: (path) => all[path] ?? "", ...change };
}

function failure(of: UserHost): (string | undefined)[] {
  const { message, hint } = assertThrows(() => checkUserNamespace(of), SbxError);
  return [message, hint];
}

Deno.test("root, and a user with uidmap and subordinate ids by name or number, can run VMs", () => {
  checkUserNamespace(host({ uid: 0, find: () => undefined, read: () => "" }));
  checkUserNamespace(host());
  checkUserNamespace(
    host({}, { "/etc/subuid": "1000:165536:65536\n", "/etc/subgid": "1000:165536:65536\n" }),
  );
});

Deno.test("a user without uidmap is told which package is missing", () => {
  const of = host({ find: (name) => name === "newuidmap" ? "/usr/bin/newuidmap" : undefined });
  assertEquals(failure(of), [
    "users who are not root cannot run VMs on this machine: newgidmap not found",
    "sudo apt-get install uidmap",
  ]);
});

Deno.test("a user without subordinate ids is told the command that adds them", () => {
  const added = "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ada";
  for (const ids of ["", "bob:100000:65536\n", "ada:165536:0\n"]) {
    const message = "user ada cannot run VMs: no subordinate ids in /etc/subuid and /etc/subgid";
    assertEquals(failure(host({}, { "/etc/subuid": ids })), [message, added]);
    assertEquals(failure(host({}, { "/etc/subgid": ids })), [message, added]);
  }
});
