/**
 * Any text that a guest puts into a recording makes a profile that parses, compiles, and matches exactly that
 * text: or an error that says which event no rule can name.
 */
import { assert, assertEquals } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import type { LabEvent } from "../../lib/lab/mod.ts";
import { learnProfile, profileRules } from "../../lib/lab/learn/mod.ts";
import { compilePolicy } from "../../lib/policy/mod.ts";
import { parseProfile } from "../../lib/config/profile/mod.ts";
import { parseToml } from "../../lib/base/toml/mod.ts";
import { Random } from "../helper/random.ts";
import { call, git, lookup, program, tool, touch, web } from "../helper/recording.ts";

const SEED = 0x1ea54;
const ROUNDS = 1200;

const PIECES = [
  ...[
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "\\u0041",
    "\\n",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\x1b[2J",
    "\x7f",
    "\x80",
    "\u2028",
  ],
  ...[
    "\u202e",
    "\ufeff",
    "\u{e0041}",
    "😀",
    "é",
    "\ud800",
    "\udc00",
    "#",
    "[x]",
    "]",
    "${x}",
    "{{",
    "%0a",
    "*",
    "(?i)",
  ],
  ...[
    '" || true || "',
    "' || true",
    '"]\n[profiles.rules.evil]\naction = "allow"\n',
    "\n# comment",
    "//",
    "\n'''\n",
  ],
  ...["a", "b.c", " ", "=", "/", "..", "x".repeat(300), "credential:blake3:00", "[redacted]"],
];

const BASE = parseProfile(
  parseToml('id = "base"\nname = "Base"\ndescription = "d"\nrevision = "1.0.0"\n', "base"),
  { id: "base", source: "user" },
);

/** Events whose fields hold a text, by where it is. */
const PLACES: Record<string, (text: string) => LabEvent> = {
  host: (text) => withHttp({ host: text }),
  method: (text) => withHttp({ method: text }),
  path: (text) => withHttp({ path: `/${text}` }),
  "path below": (text) => withHttp({ path: `/${text}/a` }),
  "no path": (text) => withHttp({ path: text }),
  ref: (text) => git("git.example", "/app.git", text),
  qname: lookup,
  server: (text) => tool(text, "read"),
  tool: (text) => tool("files", text),
  model: call,
  program: (text) => program(text, "vm", [text]),
  argument: (text) => program("sh", "vm", ["sh", "-c", text]),
  secret: (text) => touch(`/root/.ssh/${text}`),
};

function withHttp(fields: Record<string, string>): LabEvent {
  const event = web("https://api.example/");
  return { ...event, http: { request: { ...event.http!.request, ...fields } } };
}

Deno.test("recorded text of any kind becomes a profile that names it, and nothing else", async () => {
  const random = new Random(SEED);
  const places = Object.keys(PLACES);
  let made = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const place = random.pick(places);
    const text = Array.from({ length: random.below(5) }, () => random.pick(PIECES)).join("");
    const event = PLACES[place](text);
    const shown = `${place} ${JSON.stringify(text)}`;
    const profile = await learn(event, shown);
    if (!profile) continue;
    made++;
    const policy = compilePolicy(profileRules(profile));
    assertEquals(policy.evaluate(event).decision.decision, "allow", shown);
    assertEquals(Object.keys(profile.rules).length, 2, `${shown}: one rule and the question about the rest`);
    if (/credential:|\[redacted|[\ud800-\udfff]/.test(text)) continue;
    const other = policy.evaluate(PLACES[place](`${text}~other`)).decision.decision;
    assert(
      other !== "allow" || place === "secret" && PLACES[place](text).file?.activity.path_class !== "secret",
      shown,
    );
  }
  assert(made > ROUNDS / 2, `${made} of ${ROUNDS} could be named`);
});

async function learn(event: LabEvent, shown: string) {
  try {
    const { text } = await learnProfile({
      id: "new",
      base: BASE,
      sessions: () => [{ id: "s", events: [event] }],
    });
    assert(!/[^\n\x20-\x7e]/.test(text), `${shown}: the text has more than lines of printable ASCII`);
    return parseProfile(parseToml(text, "new"), { id: "new", source: "user" });
  } catch (error) {
    assert(error instanceof SbxError && error.code === "learn.unnamed", `${shown}: ${error}`);
  }
}
