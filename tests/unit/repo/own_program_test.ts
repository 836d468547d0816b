/**
 * Programs that sbx runs in a VM for repositories are known by their text,
 * which no client can lend to others.
 */
import { assertEquals } from "@std/assert";
import {
  carriedName,
  CLONE,
  collectIn,
  type Guest,
  hasGit,
  removeCarried,
  unpackPlain,
} from "../../../lib/repo/guest.ts";
import { OWN, repositoryWork } from "../../../lib/repo/mod.ts";
import { Room } from "../../../lib/repo/store.ts";

Deno.test("scripts that bring in and that read are distinguished, whatever their arguments", async () => {
  const ran: string[][] = [];
  const guest = {
    name: "demo",
    workspace: "/workspace",
    run: (argv: string[]) => {
      ran.push(argv);
      return Promise.resolve({ code: 0, stdout: "", stderr: "" });
    },
  } as unknown as Guest;
  const dir = await Deno.makeTempDir();
  try {
    await hasGit(guest);
    await unpackPlain(guest, "/root/web", "/workspace/.sbx-in-1");
    await collectIn(guest, new Room(dir), ["/root/web", "/workspace/.sbx-out", ""], 1);
    await removeCarried(guest, carriedName(), 1);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
  assertEquals(ran.map(repositoryWork), ["read", "bring", "read", "read"]);
  assertEquals(repositoryWork(["/bin/sh", "-c", OWN, "sbx-repository", "me"]), "bring");
});

Deno.test("a program of a person has no mark, also with the name and a part of a script", () => {
  for (
    const argv of [
      ["/bin/sh", "-c", "make", "sbx-repository"],
      ["/bin/sh", "-c", `${CLONE}\nmake`, "sbx-repository"],
      ["/bin/sh", "-x", "-c", CLONE],
      ["/tmp/sh", "-c", CLONE],
      ["rm", "-f", "--", "/workspace/.sbx-out-1"],
      ["rm", "-f", "--", `/workspace/../root/${carriedName()}`],
      ["rm", "-rf", "--", `/workspace/${carriedName()}`],
      ["rm", "-f", "--", "/etc/passwd", `/workspace/${carriedName()}`],
      ["make", CLONE],
      ["-c", CLONE],
      [CLONE],
      [],
    ]
  ) assertEquals(repositoryWork(argv), undefined, argv[0]);
});
