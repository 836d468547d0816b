/** Desktop notifications of asks, on a D-Bus of the test's own with a program that shows them. */
import { assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import dbus from "dbus-native";
import { DbusBoard } from "../../lib/base/dbus/mod.ts";
import { READ_MS } from "../../lib/policy/ask/limit.ts";
import { AskNotifier, macArguments } from "../../lib/service/contract/asks.ts";
import { OddBus, ODDITIES } from "../helper/odd_bus.ts";
import { PrivateBus } from "../helper/private_bus.ts";
import { eventually } from "../helper/sbx.ts";

const options = { sanitizeResources: false, sanitizeOps: false };
const NAME = "org.freedesktop.Notifications", PATH = "/org/freedesktop/Notifications";

const ask = (subject: string, status: "pending" | "expired" = "pending", id = "ask-3f2a90c1d7e4") => ({
  type: "ask" as const,
  payload: {
    ask_id: id,
    digest: `digest-of-${id}`,
    event_id: "3f2a90c1d7e4",
    session_id: "s1",
    event_type: "http.request",
    subject,
    rule_id: "r",
    reason: "a reason",
    created_at: "2026-01-01T00:00:00.000Z",
    expires_at: "2026-01-01T00:01:00.000Z",
    status,
  },
});

/** What a desktop was told to show, and to take away. */
interface Desktop {
  shown: { title: string; body: string; actions: string[]; urgency: number }[];
  closed: number[];
  press(id: number, key: string): void;
}

async function desktopOn(session: PrivateBus): Promise<Desktop> {
  const bus = session.client();
  const desktop: Desktop = {
    shown: [],
    closed: [],
    press: (id, key) => definition.emit.ActionInvoked(id, key),
  };
  const types = ["s", "u", "s", "s", "s", "as", "a{sv}", "i"];
  const names = ["app", "replaces", "icon", "title", "body", "actions", "hints", "timeout"];
  const definition = dbus.defineInterface({
    name: NAME,
    methods: {
      Notify: {
        in: Object.fromEntries(names.map((name, at) => [name, types[at]])),
        out: { id: "u" },
        handler({ title, body, actions, hints }) {
          return desktop.shown.push({ title, body, actions, urgency: hints.urgency });
        },
      },
      CloseNotification: { in: { id: "u" }, handler: ({ id }) => void desktop.closed.push(id) },
    },
    signals: {
      ActionInvoked: { args: { id: "u", key: "s" } },
      NotificationClosed: { args: { id: "u", reason: "u" } },
    },
  });
  await bus.export(PATH, definition);
  await bus.requestName(NAME, 0);
  return desktop;
}

function notifier(address: string | undefined, isOn = true) {
  const answers: string[] = [];
  const problems: string[] = [];
  const board = new DbusBoard(() => Promise.resolve(address));
  const asks = new AskNotifier({
    isOn: () => isOn,
    nameOf: () => "dev",
    answer: ({ ask_id }, decision) => Promise.resolve(void answers.push(`${decision} ${ask_id}`)),
    board: () => Promise.resolve(board),
    report: (problem) => void problems.push(problem),
  });
  return { asks, answers, problems };
}

Deno.test(
  "notification: an ask with its VM and subject as text, and buttons that answer it",
  options,
  async () => {
    await using session = await PrivateBus.start();
    const desktop = await desktopOn(session);
    const { asks, answers } = notifier(session.address);
    asks.take(ask("GET http://x/<b>\u001b[2J --icon=x"));
    asks.take(ask("another", "pending", "ask-2"));
    await eventually("it is shown", () => desktop.shown.length === 1);
    const [{ title, body, actions, urgency }] = desktop.shown;
    assertEquals([title, urgency], ["sbx: dev asks", 2]);
    assertEquals(body.split("\n").slice(0, 2), ["GET http://x/&lt;b&gt;\ufffd[2J --icon=x", "a reason"]);
    assertStringIncludes(body, "sbx allow ask-3f2a90c1d7e4, or sbx deny ask-3f2a90c1d7e4");
    assertEquals(actions, ["allow", "Allow once", "deny", "Deny"]);

    // A program that shows no notifications answers nothing, though it says so.
    const other = session.client();
    other.sendSignal(PATH, NAME, "ActionInvoked", "us", [1, "allow"]);
    await other.listNames();
    desktop.press(7, "allow");
    // A press that was meant for what was in this place before: the notification comes back.
    desktop.press(1, "allow");
    await eventually("it is shown again", () => desktop.shown.length === 2);
    await new Promise((resolve) => setTimeout(resolve, READ_MS + 100));
    desktop.press(2, "deny");
    await eventually("it is answered", () => answers.length > 0);
    assertEquals(answers, ["deny ask-3f2a90c1d7e4"]);
  },
);

Deno.test("notification: one that was answered elsewhere is taken away", options, async () => {
  await using session = await PrivateBus.start();
  const desktop = await desktopOn(session);
  const { asks, answers } = notifier(session.address);
  asks.take(ask("x"));
  asks.take(ask("x", "expired"));
  await eventually("it is gone", () => desktop.closed.length === 1);
  desktop.press(1, "allow");
  await new Promise((resolve) => setTimeout(resolve, 50));
  assertEquals([desktop.shown.length, desktop.closed, answers], [1, [1], []]);
});

Deno.test(
  "notification: none without a desktop, when it is off, and for an ask that is over",
  options,
  async () => {
    await using session = await PrivateBus.start();
    await using empty = await PrivateBus.start();
    const off = notifier(session.address, false), on = notifier(session.address);
    for (const address of [undefined, "unix:path=/nowhere", empty.address]) {
      notifier(address).asks.take(ask("nobody shows notifications yet"));
    }
    const desktop = await desktopOn(session);
    off.asks.take(ask("off"));
    on.asks.take(ask("over", "expired"));
    await new Promise((resolve) => setTimeout(resolve, 100));
    assertEquals(desktop.shown, []);
  },
);

Deno.test("notification: a bus that misbehaves is told once, and harms nothing", options, async () => {
  await Promise.all(ODDITIES.map(async (oddity) => {
    await using bus = await OddBus.start(oddity);
    const { asks, problems } = notifier(bus.address);
    asks.take(ask("nobody sees it"));
    await eventually(`${oddity} is told`, () => problems.length === 1);
    assertNotEquals(problems[0], "", oddity);
    asks.take(ask("nobody sees it", "expired"));
    await eventually(`${oddity}: its connection is closed`, () => bus.open === 0);
  }));
});

Deno.test("notification: on a Mac, texts are no part of the script", () => {
  const args = macArguments({ title: "sbx: dev asks", body: '" & do shell script "id' });
  assertEquals(args.slice(-2), ['" & do shell script "id', "sbx: dev asks"]);
  assertEquals(args.slice(0, -2).filter((_, at) => at % 2 === 0), ["-e", "-e", "-e"]);
});
