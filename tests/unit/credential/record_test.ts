/** Secrets in the texts of records (docs/design/contracts/09-credentials.md §9). */
import { assertEquals, assertNotEquals } from "@std/assert";
import { refOf, SECRET_MIN } from "../../../lib/credential/mod.ts";
import { added, KEY, world } from "../../helper/credential.ts";

/** Shortest texts with the shape of a provider's secret. */
const TOKENS = [
  `sk-ant-${"a".repeat(16)}`,
  `sk-${"a".repeat(19)}1`,
  `AIza${"a".repeat(30)}`,
  `ya29.${"a".repeat(20)}`,
  `ghp_${"a".repeat(20)}`,
  `github_pat_${"a".repeat(20)}`,
];
const JWT = "eyJaaaaaaaa.eyJaaaaaaaa.aaaaaaaa";

Deno.test(
  "a secret that is split over several texts of a record leaves no part of it",
  world(added, async ({ open, refs }) => {
    const broker = await open();
    const [head, tail] = [KEY.anthropic.slice(0, 40), KEY.anthropic.slice(40)];
    const argv = ["curl", `k=${head}`, `${tail}!`, "end"];
    const scrubbed = broker.scrubValue({ argv, command: argv.join(" "), count: 1 });
    assertEquals(scrubbed, {
      argv: ["curl", `k=${refs.anthropic}`, "!", "end"],
      command: `curl k=${refs.anthropic}! end`,
      count: 1,
    });
    const clean = { argv: ["true"] };
    assertEquals(broker.scrubValue(clean) === clean, true);
  }),
);

Deno.test(
  "the shortest text shaped like a secret is found in a record while no secret is known",
  world([], async ({ open }) => {
    const broker = await open();
    for (const token of [...TOKENS, JWT]) {
      const record = (text: string) => ({ [text]: [{ a: "b" }, text], c: { d: `line\n${text}!` } });
      assertEquals(broker.scrubValue(record(token)), record("[redacted]"));
      const shorter = record(token.slice(0, -1));
      assertEquals(broker.scrubValue(shorter) === shorter, true);
    }
  }),
);

Deno.test(
  "a captured secret is found in the next record, also split over texts",
  world([], async ({ open }) => {
    const broker = await open();
    const split = { argv: [KEY.mcp.slice(0, 5), KEY.mcp.slice(5)] };
    assertEquals(broker.scrubValue(split) === split, true);
    broker.capture("api.anthropic.com", [["x-api-key", KEY.mcp]]);
    assertEquals(broker.scrubValue(split), { argv: [refOf("anthropic", KEY.mcp), ""] });
  }),
);

Deno.test(
  "the shortest secrets are found in a header and in a record",
  world(
    [{ provider: "mcp", secret: "s".repeat(SECRET_MIN), hosts: ["mcp.example.com"] }],
    async ({ open }) => {
      const broker = await open();
      for (const secret of [...TOKENS, "s".repeat(SECRET_MIN)]) {
        const { headers } = broker.capture("other.example.com", [["x-note", secret]]);
        assertNotEquals(headers, [["x-note", secret]]);
        assertNotEquals(broker.scrubValue({ note: secret }), { note: secret });
      }
    },
  ),
);

Deno.test(
  "a text keeps what surrounds its secrets, and loses the beginning of one where it is cut",
  world(added, async ({ open, refs }) => {
    const broker = await open();
    const cases: [text: string, scrubbed: string][] = [
      ["plain !", "plain !"],
      [`${KEY.mcp}!`, `${refs.mcp}!`],
      [`a ${KEY.mcp} b ${TOKENS[0]} c!`, `a ${refs.mcp} b [redacted] c!`],
      [`a ${refs.mcp} b!`, `a ${refs.mcp} b!`],
      [`a ${JWT}!`, "a [redacted]!"],
    ];
    for (const [text, scrubbed] of cases) {
      assertEquals([broker.scrub(text), broker.scrub(text, true)], [scrubbed, scrubbed]);
      const begun = KEY.mcp.slice(0, 9);
      assertEquals(broker.scrub(text + begun, true), scrubbed);
      assertEquals(broker.scrub(text + begun), scrubbed + begun);
    }
  }),
);

Deno.test(
  "a secret in the name of a header is on record by its ref, known or not",
  world(added, async ({ open }) => {
    const broker = await open();
    const known = KEY.github;
    for (const secret of [known, TOKENS[4]]) {
      const { substitutions } = broker.capture("api.example.com", [[secret, "x"]]);
      assertEquals(substitutions.map((row) => [row.credential_ref, row.location, row.outcome]), [
        [refOf("github", secret), "the name of a header", "denied"],
      ]);
    }
  }),
);
