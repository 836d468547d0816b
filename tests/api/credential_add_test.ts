/**
 * Faults in the words of `sbx credentials add`, and the next step that each names: the real CLI and service.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";

const APP = "3f9a12cd-0000-4000-8000-000000000001";

Deno.test("sbx credentials add names each fault and the next step", async () => {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const sbx = await Sbx.make();
  try {
    await sbx.ok("start");
    const file = join(dir, "key");
    const missing = join(dir, "missing");
    await Deno.writeTextFile(file, "a-client-secret-of-azure");
    await Deno.writeTextFile(join(dir, "google.json"), JSON.stringify({ type: "service_account" }));
    const add = async (words: string[], input = "/dev/null") => {
      const script = 'exec "$0" credentials add "$@" < "$INPUT"';
      const { code, stderr } = await runChild("sh", {
        args: ["-c", script, fromRoot("bin/sbx"), ...words],
        env: { ...sbx.env, INPUT: input },
      });
      return { code, stderr: new TextDecoder().decode(stderr) };
    };
    const cases: [words: string[], input: string | undefined, problem: string, hint: string][] = [
      // An identity at a cloud is no key that a request carries.
      [["gcp"], undefined, "gcp needs an identity", "--service-account FILE, --adc"],
      [["gcp"], join(dir, "google.json"), "gcp needs an identity", "--service-account FILE, --adc"],
      [["azure"], file, "azure needs an identity", "--tenant ID --client-id ID"],
      [["gcp", "--tenant", "T"], file, "gcp takes no --tenant", "--tenant goes with azure"],
      [["aws", "--region", "eu-west-1"], file, "name one identity at AWS", "--profile NAME"],
      [
        ["gcp", "--project", "p"],
        file,
        "name one identity at Google Cloud",
        "--service-account FILE, or --adc",
      ],
      [["azure", "--tenant", "T"], file, "needs its tenant and its id", "--client-id ID"],
      [["azure", "--tenant", "T", "--client-id", "mine"], file, "--client-id: must be", "application"],
      [["azure", "--tenant", "T T", "--client-id", APP], file, "--tenant: must be", "tenant"],
      [
        ["azure", "--tenant", "t", "--client-id", APP, "--resource", "x"],
        file,
        "--resource: must be",
        "vault",
      ],
      [
        ["gcp", "--service-account", missing],
        undefined,
        `the key file ${missing} cannot be read`,
        "name the",
      ],
      [["aws", "--profile", "none-of-this-name"], undefined, "none-of-this-name", "list-profiles"],
      [["ssh", "--host", "git.example.com"], undefined, "the SSH key is empty", "--key FILE, or --agent"],
      [
        ["ssh", "--host", "git.example.com", "--key", missing],
        undefined,
        `${missing} cannot be read\n`,
        "name",
      ],
      [
        ["--custom", "Acme", "--host", "api.acme.example", "--header", "x-key"],
        file,
        "provider: must be the id of a provider",
        "lower-case",
      ],
      [
        ["npm", "--program", "--", "echo", "npm_abcdefghijklmnopqrstuvwxyz0123456789"],
        undefined,
        "looks like",
        "vault",
      ],
      // By hand it works: only the confinement ends it.
      [
        ["npm", "--program", "--confine", "--", "cat", file],
        undefined,
        "the program cat failed with status 1",
        "--may-read",
      ],
    ];
    for (const [words, input, problem, hint] of cases) {
      const { code, stderr } = await add(words, input);
      assert(code !== 0, `${words} were taken`);
      assertStringIncludes(stderr, problem);
      assertStringIncludes(stderr, hint);
    }
    assertEquals(JSON.parse(await sbx.ok("credentials", "list", "--json")).credentials, []);
    for (const word of ["abcdef", "abc", "nonsense"]) {
      const { code, stderr } = await sbx.cli("credentials", "keep", word);
      assert(code !== 0);
      assertStringIncludes(stderr, "sbx credentials keep");
    }
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
