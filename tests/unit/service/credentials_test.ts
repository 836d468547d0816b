/** Requests for credentials: which fields fit together (docs/design/contracts/09-credentials.md §9). */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import type { CredentialAdd } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { KEY } from "../../helper/credential.ts";

Deno.test("a credential has a host exactly where its provider has none, and a secret unless it is a decoy", () => {
  const secret = "a-secret";
  assertEquals(newCredential({ provider: "mcp", secret, host: "mcp.example.com" }), {
    provider: "mcp",
    secret,
    label: undefined,
    hosts: ["mcp.example.com"],
  });
  const decoy = newCredential({ provider: "github", label: "bait", decoy: true });
  assertEquals([decoy.label, decoy.decoy, decoy.hosts], ["bait", true, undefined]);
  assert(decoy.secret.length > 20);
  const invalid: [CredentialAdd, RegExp][] = [
    [{ provider: "mcp", secret }, /needs the host/],
    [{ provider: "github", secret, host: "github.com" }, /has hosts of its own/],
    [{ provider: "github" }, /the secret is missing/],
  ];
  for (const [request, message] of invalid) {
    const error = assertThrows(() => newCredential(request), SbxError);
    assertEquals(error.code, "credential.invalid");
    assertMatch(error.message, message);
  }
});

Deno.test("a label or a host that is a key is refused, and no random name of a cloud", () => {
  const request = { provider: "mcp", secret: "a-secret", host: "mcp.example.com" } as const;
  const invalid: [CredentialAdd, string][] = [
    [{ ...request, label: KEY.github }, "the label looks like a key"],
    [{ ...request, host: "x7Kq9mZ2vB4nR8tW1yL5pD3cF6hJ0gSa" }, "the host looks like a key"],
    [{ ...request, host: `${KEY.github}.example.com` }, "the host looks like a key"],
  ];
  for (const [each, message] of invalid) {
    const error = assertThrows(() => newCredential(each), SbxError, message);
    assert(!JSON.stringify([error.message, error.hint]).includes(KEY.github));
  }
  const host = "x7kq9mz2vb4nr8tw1yl5pd3cf6hj0gsa.run.example.com";
  assertEquals(newCredential({ ...request, host }).hosts, [host]);
});
