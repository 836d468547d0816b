/** The service's books of the hosts that VMs contact. */
import { assertEquals } from "@std/assert";
import { contactsPath, parseContacts } from "../../../lib/policy/mod.ts";
import { Contacts } from "../../../lib/service/record/contacts.ts";
import { type Notice, Notices } from "../../../lib/service/notice.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";

let id = 0;
function request(host: string, decision: string | undefined, profile_id = "code") {
  const event_id = (++id).toString(16).padStart(12, "0");
  const event = {
    common: { ...eventCommon("http.request", { event_id, profile_id }), timestamp_unix_ms: Date.now() },
    http: { request: httpRequest({ host }) },
  };
  const payload = { event, ...(decision && { decision: { decision } }) };
  return { event_id, notice: { type: "security-event", payload } as unknown as Notice };
}
const answer = (event_id: string, status: string) =>
  ({ type: "ask", payload: { event_id, status } }) as unknown as Notice;

Deno.test("contacts that went ahead are kept by profile, over restarts and a broken file; what was refused is not", async () => {
  const dir = await Deno.makeTempDir();
  const hostsOf = async (profile: string) =>
    [...parseContacts(await Deno.readTextFile(contactsPath(dir, profile)))["http.request.host"].keys()]
      .sort();
  const run = async (publish: (notices: Notices) => void) => {
    const notices = new Notices();
    const contacts = new Contacts({ home: { dir }, notices });
    publish(notices);
    await contacts.close();
  };
  try {
    await run((notices) => {
      notices.publish(request("allowed.example", "allow").notice);
      notices.publish(request("observed.example", undefined).notice);
      notices.publish(request("blocked.example", "block").notice);
      notices.publish(request("other.example", "allow", "other").notice);
      const [yes, no] = [request("asked.example", "ask"), request("denied.example", "ask")];
      for (const { notice } of [yes, no]) notices.publish(notice);
      notices.publish(answer(yes.event_id, "pending"));
      notices.publish(answer(yes.event_id, "allowed"));
      notices.publish(answer(no.event_id, "denied"));
    });
    const first = ["allowed.example", "asked.example", "observed.example"];
    assertEquals(await hostsOf("code"), first);
    assertEquals(await hostsOf("other"), ["other.example"]);
    await run((notices) => notices.publish(request("later.example", "allow").notice));
    assertEquals(await hostsOf("code"), [...first, "later.example"].sort());
    await Deno.writeTextFile(contactsPath(dir, "code"), "{");
    await run((notices) => notices.publish(request("again.example", "allow").notice));
    assertEquals(await hostsOf("code"), ["again.example"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
