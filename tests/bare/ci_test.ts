/**
 * scripts/ci.sh on a runner: in a Debian with the packages that run VMs alone, from sources of its own, as a
 * user without sudo and without KVM, with the image and the template that its cache brought back.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { BUILTIN_PROFILES } from "../../lib/config/profile/builtin.ts";
import { limitChild, runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { assetFiles } from "../helper/asset_files.ts";

/** Time limit of one command in `ms`: the first one makes the system and installs packages. */
const LIMIT_MS = 1_800_000;
const SUITE = "bookworm";
const ROOT = fromRoot(`.cache/roots/${SUITE}/root`);
const HOME = "/home/runner";

/** A line of its own for each finding of a request by curl. */
const RULES = `title: A program that decodes base64
logsource: {category: process_creation, product: linux}
detection: {selection: {Image|endswith: /base64}, condition: selection}
level: high
`;

/** Rule of the profile, by which a request is refused. */
const REFUSAL = `
[profiles.rules.no-refused]
action = "block"
match = '''(has(http.request) && http.request.host == "refused.example") ||
  (has(dns.request) && dns.request.qname == "refused.example")'''
`;

const POLICY = [["right", "allow"], ["wrong", "block"]].map(([name, decision]) => ({
  name,
  when: {
    schema_version: 1,
    common: { event_type: "process.exec" },
    process: { activity: { command: "true", argv: ["true"], executable: "/bin/true" } },
  },
  then: { decision },
}));

Deno.test("scripts/ci.sh in a bare Debian, as a user without sudo, to its end", async (t) => {
  await asRoot(
    "RUNS_ONLY=1 scripts/deps.sh && apt-get install -qq -y --no-install-recommends make >/dev/null",
  );
  const uid = await freeUid();
  await asRoot(
    `userdel -f -r runner 2>/dev/null; useradd --uid ${uid} --create-home --shell /bin/bash runner`,
  );
  const home = join(ROOT, HOME);
  try {
    await prepare(home);
    const user = await asRunner("id; command -v sudo || echo no sudo; echo $CI_KVM");
    assertMatch(user.stdout, /\(runner\).*\nno sudo/s);

    await t.step("the first job makes the template; a wrong policy test fails it", async () => {
      const { code, stdout, stderr } = await job("curl -sS https://refused.example/; true");
      assertEquals(code, 1, `${stdout}\n${stderr}`);
      assertMatch(stdout, /^::notice .*refused\.example/m);
      const { stdout: status } = await asRunner("sbx status");
      assertMatch(status, /^service +not running/m, "its daemons have ended with it");
      const out = join(home, "project/sbx-ci");
      assertEquals(Array.from(Deno.readDirSync(out), ({ name }) => name).toSorted(), [
        "certificate.json",
        "findings.json",
        "gl-code-quality-report.json",
        "junit.xml",
        "policy.xml",
        "session.db",
        "summary.md",
      ]);
      assertMatch(Deno.readTextFileSync(join(out, "policy.xml")), /tests="2" failures="1"/);
      const { session, refused } = JSON.parse(Deno.readTextFileSync(join(out, "findings.json")));
      assert(JSON.stringify(refused).includes("refused.example"), JSON.stringify(refused));
      assertStringIncludes(Deno.readTextFileSync(join(home, "summary")), session);
      const verified = await asRunner(
        "cd project && sbx certify --verify sbx-ci/certificate.json sbx-ci/session.db && sbx verify sbx-ci/session.db",
      );
      assertStringIncludes(verified.stdout, "valid");
      assertStringIncludes(Deno.readTextFileSync(join(home, "output")), "out=sbx-ci\n");
    });

    await t.step(
      "the cache of the next job has its image and template: a VM of a finding fails it",
      async () => {
        await asRunner(
          "mkdir cache && mv .sbx/assets .sbx/templates cache && rm -rf .sbx && mkdir -m 0700 .sbx && mv cache/* .sbx",
        );
        await Deno.writeTextFile(join(home, "rules.yml"), RULES);
        await asRunner("sbx start && sbx detection add rules.yml");
        const { code, stdout, stderr } = await job("echo aGk= | base64 -d", { SBX_CI_POLICY_TESTS: "" });
        assertEquals(code, 4, `${stdout}\n${stderr}`);
        assertMatch(stdout, /^::error .*decodes base64/m);
        const out = join(home, "project/sbx-ci");
        assertStringIncludes(Deno.readTextFileSync(join(out, "junit.xml")), "decodes base64");
        const { session } = JSON.parse(Deno.readTextFileSync(join(out, "findings.json")));
        const started = await asRunner(
          `sbx sql ${session} "SELECT record FROM statements" || true; sbx stop`,
        );
        assertStringIncludes(started.stdout, "template");
      },
    );
  } finally {
    await asRoot(`pkill -u ${uid}; userdel -f -r runner; true`);
  }
});

/**
 * Id of a user that no process of this machine has. The system has the machine's processes: with the id of
 * its first user, the end of the runner's would be the end of all that a person of this machine runs.
 */
async function freeUid(): Promise<number> {
  const line = "uid=58000; while pgrep -u $uid >/dev/null; do uid=$((uid + 1)); done; echo $uid";
  const { stdout, stderr } = await enter(line);
  const uid = Number(stdout.trim());
  assert(uid >= 58000, stderr);
  return uid;
}

/** Sources, image and a project of the runner's own, as a checkout and a cache bring them. */
async function prepare(home: string): Promise<void> {
  const sources = `mkdir -p "$1/sbx" "$1/.sbx/assets" "$1/project"
    git ls-files -z -co --exclude-standard | tar --null -T - -c | tar -C "$1/sbx" -x
    mkdir "$1/sbx/.deno"
    # Without the databases of Deno's own, which another one may be writing.
    tar -C .deno --exclude='*_cache_v*' -c deno node_modules cache | tar -C "$1/sbx/.deno" -x
    shift_home=$1; shift
    cp --reflink=auto "$@" "$shift_home/.sbx/assets/"`;
  const assets = assetFiles(Deno.env.get("SBX_TEST_ASSETS_DIR")!);
  const { code, stderr } = await runChild("bash", {
    args: ["-euc", sources, "prepare", home, ...assets],
    cwd: fromRoot(""),
  }, LIMIT_MS);
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  await Deno.writeTextFile(join(home, "project/a.txt"), "one\n");
  await Deno.writeTextFile(
    join(home, "project/rules_test.jsonl"),
    POLICY.map((each) => JSON.stringify(each) + "\n").join(""),
  );
  const profile = join(home, ".sbx/profiles/code");
  await Deno.mkdir(profile, { recursive: true });
  await Deno.writeTextFile(join(profile, "profile.toml"), BUILTIN_PROFILES.get("code")! + REFUSAL);
  await asRoot(`chown -R runner:runner ${HOME} && chmod 0700 ${HOME}/.sbx`);
}

/** One job of a build server. */
function job(command: string, more: Record<string, string> = {}) {
  const env = {
    SBX_CI_COMMAND: command,
    SBX_CI_FROM_DIR: ".",
    SBX_CI_POLICY_TESTS: "rules_test.jsonl",
    SBX_CI_TEMPLATE: "1",
    GITHUB_ACTIONS: "true",
    GITHUB_STEP_SUMMARY: `${HOME}/summary`,
    GITHUB_OUTPUT: `${HOME}/output`,
    ...more,
  };
  const words = Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`).join(" ");
  return asRunner(`cd project && ${words} ~/sbx/scripts/ci.sh`);
}

function asRunner(line: string) {
  const path = `${HOME}/sbx/bin:/usr/local/bin:/usr/bin:/bin`;
  return enter(
    `cd ${HOME} && exec setpriv --reuid runner --regid runner --clear-groups env -i HOME=${HOME} USER=runner ` +
      `PATH=${path} LANG=C.UTF-8 SBX_GATEWAY_PORT=0 bash -c ${quoted(line)}`,
  );
}

async function asRoot(line: string): Promise<void> {
  const { code, stdout, stderr } = await enter(line);
  assertEquals(code, 0, `${line}\n${stdout}\n${stderr}`);
}

async function enter(line: string): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = limitChild(
    new Deno.Command(fromRoot("scripts/root.sh"), {
      args: [SUITE, "bash", "-c", line],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn(),
    LIMIT_MS,
  );
  const { code, stdout, stderr } = await child.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
