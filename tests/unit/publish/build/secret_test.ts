import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { parseLogin, parseSecret } from "../../../../lib/publish/build/mod.ts";

Deno.test("a secret of a build is a ref, and never a key of the host", () => {
  assertEquals(parseSecret("id=npm,ref=abc123"), { id: "npm", ref: "abc123" });
  assertEquals(parseSecret("type=file, id=npm , ref=abc123"), { id: "npm", ref: "abc123" });
  const invalid = [
    "id=npm",
    "ref=abc",
    "npm",
    "id=npm,src=key.txt",
    "id=npm,env=KEY",
    "id=npm,ref=abc,env=KEY",
    "id=../x,ref=a",
    "id=.x,ref=a",
    "id=a b,ref=c",
    "id=a,ref=b,uid=0",
    "",
  ];
  for (const text of invalid) {
    assertEquals(
      assertThrows(() => parseSecret(text), SbxError, undefined, text).code,
      "build.secret_invalid",
    );
  }
});

Deno.test("a login of a build is a registry, a user and a ref", () => {
  const login = { registry: "registry.example.com:5000", user: "me", ref: "abc123" };
  assertEquals(parseLogin("registry=registry.example.com:5000,user=me,ref=abc123"), login);
  assertEquals(parseLogin("ref=abc123, user=me , registry=registry.example.com:5000"), login);
  const invalid = [
    "registry=a.example,user=me",
    "user=me,ref=abc",
    "registry=https://a.example,user=me,ref=abc",
    "registry=a.example/name,user=me,ref=abc",
    "registry=a.example,user=me:x,ref=abc",
    "registry=a.example,user=,ref=abc",
    "registry=a.example,user=me,ref=abc,password=x",
    "registry=a.example,user=me,password=x",
    "",
  ];
  for (const text of invalid) {
    assertEquals(
      assertThrows(() => parseLogin(text), SbxError, undefined, text).code,
      "build.login_invalid",
    );
  }
});
