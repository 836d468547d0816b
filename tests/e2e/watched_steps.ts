/** Rules that only observe, first contacts, and a feed of every event, in a real VM. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Sbx } from "../helper/sbx.ts";
import type { Received, SyslogReceiver } from "../helper/syslog_receiver.ts";
import type { Parsed } from "../helper/json.ts";

/** Hosts of the steps: one that corp knows, and one that it does not. */
export const KNOWN = "api.anthropic.com", UNKNOWN = "other.example";

/** Part of a profile. */
export const WATCHING = `
[profiles.rules.seen]
action = "observe"
detection_level = "high"
match = 'http.request.path == "/observed"'

[profiles.rules.first-contact]
action = "observe"
match = 'has(http.request) && !history.known("http.request.host", "profile")'

[profiles.rules.unknown-to-corp]
action = "block"
match = 'has(http.request) && !history.known("http.request.host", "organization")'
`;

/** corp.toml with a feed to the receiver. */
export const corpOf = ({ port, caFile }: SyslogReceiver) => `
[corp]
known_hosts = ["${KNOWN}"]

[[sinks]]
id = "siem"
form = "syslog"
url = "tls://localhost:${port}"
ca_file = "${caFile}"
`;

/**
 * Steps for a VM `dev` with {@linkcode WATCHING} in its profile.
 * @param curl requests an https URL in the VM
 */
export async function watchedSteps(
  t: Deno.TestContext,
  sbx: Sbx,
  curl: (url: string) => Promise<{ code: number; stdout: string }>,
): Promise<void> {
  const findingsOf = async (rule: string): Promise<Parsed[]> =>
    JSON.parse(await sbx.ok("findings", "dev", "--json")).findings
      .filter(({ rule_id }: { rule_id: string }) => rule_id === rule);

  await t.step("a rule that observes finds a request, which goes on", async () => {
    assertEquals(JSON.parse((await curl(`https://${KNOWN}/observed`)).stdout).path, "/observed");
    const [found, ...others] = await findingsOf("seen");
    assertEquals([found?.severity, found?.decision.outcome, others.length], ["high", "allow", 0]);
    assertStringIncludes(await sbx.ok("why", found.event_id), "seen");
  });

  await t.step("a first contact is found once, and a host that corp does not know is blocked", async () => {
    await curl(`https://${KNOWN}/again`);
    const contacts = await findingsOf("first-contact");
    assertEquals(
      contacts.filter(({ subject }) => subject.includes(KNOWN)).length,
      1,
      JSON.stringify(contacts),
    );
    const { decision, rule } = JSON.parse((await curl(`https://${UNKNOWN}/`)).stdout);
    assertEquals([decision, rule.id], ["block", "unknown-to-corp"]);
  });
}

/** The receiver has each event of a session, also past services that were killed. */
export async function requireFed(sbx: Sbx, receiver: SyslogReceiver, session: string): Promise<void> {
  const lines = (await sbx.ok("events", session, "--jsonl")).trim().split("\n");
  const uids = lines.map((line) => `${session}:${JSON.parse(line).common.sequence}`);
  assert(uids.length > 20, `${uids.length}`);
  const uidOf = ({ message }: Received): string => JSON.parse(message).metadata.uid;
  const messages = await receiver.messages((all) => all.some((message) => uidOf(message) === uids.at(-1)));
  const received = new Set(messages.map(uidOf));
  assertEquals(uids.filter((uid) => !received.has(uid)), []);
  const blocked = messages.map(({ message }) => JSON.parse(message)).find(({ http_request }) =>
    http_request?.url.hostname === UNKNOWN
  );
  assertEquals([blocked?.class_uid, blocked?.disposition_id], [4002, 2]);
}
