/** Words that look like secrets, and words that do not. */
import { assertEquals } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { looksSecret, refOf, withoutSecretWords } from "../../../lib/credential/mod.ts";
import { KEY } from "../../helper/credential.ts";

const SECRETS = [
  ...Object.values(KEY).filter((key) => key !== KEY.mcp),
  "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1",
  "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
  "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
  "glpat-Zx8kQ2mN7pR4sT9vW1yB",
  "/Zx8kQ2mN7pR4sT9vW1yB/Zx8kQ2mN7pR4sT9vW1yB",
  "a key like Zx8kQ2mN7pR4sT9vW1yB in a sentence",
  "--label=Zx8kQ2mN7pR4sT9vW1yB",
  "TOKEN=Zx8kQ2mN7pR4sT9vW1yB",
];

const WORDS = [
  "my-project-2024-backend-with-a-long-name",
  "sk-learn-is-a-library-with-a-long-name",
  "3f2c9a10-7b4e-4d21-9c55-0a1b2c3d4e5f",
  "/tmp/sbx-cli-1a2b3c4d5e6f7a8b/folder/file.txt",
  "demo:/root/work/notes-of-2026-11-22.txt",
  "generativelanguage.googleapis.com",
  "api.example.com:8443",
  "registry.example.com/team/image:1.22.333-beta",
  "policy.rules.default.block-model-websocket",
  refOf("github", KEY.github),
  "for i in 1 2 3; do echo $i; done && ls -la /root",
];

Deno.test("words that look like secrets are told from names, paths, hosts and commands", () => {
  assertEquals(SECRETS.filter((word) => !looksSecret(word)), []);
  assertEquals(WORDS.filter(looksSecret), []);
});

Deno.test("an error repeats no argument that looks like a secret, in no case and no part of its text", () => {
  const key = "Zx8kQ2mN7pR4sT9vW1yB";
  const error = new SbxError("vm.not_found", `no VM ${key} or ${key.toLowerCase()} at demo`, {
    hint: `try -- ${key}`,
    cause: new Error(key),
  });
  const clean = withoutSecretWords(error, ["info", `--name=${key}`, "demo"]);
  assertEquals([clean.code, clean.message, clean.hint, clean.cause], [
    "vm.not_found",
    "no VM [redacted] or [redacted] at demo",
    "try -- [redacted]",
    undefined,
  ]);
  assertEquals(withoutSecretWords(error, ["info", "demo"]), error);
});
