/**
 * Phrases that give a translation away, counted for each 10,000 words: no area may have more of them than it
 * had, and the aim is what other well-kept code has (1.5 of each at most).
 */
import { assertEquals } from "@std/assert";
import { codeBelow, filesBelow, fromRoot } from "../../helper/repo.ts";

/** The phrases, by the name of their kind. */
const PHRASES: Record<string, RegExp> = {
  "what is":
    /\bwhat (?:is|was|are|were|the|a|an|it|they|this|that|each|of|has|had|cannot|must|may|does|did|no|its)\b/gi,
  tell: /\b(?:tell|tells|told|telling)\b/gi,
  "those of": /\bthose (?:of|that|which|who|whose|in|for|with|from|by|on|not|are)\b/gi,
  nobody: /\b(?:nobody|somebody|whoever|anybody)\b/gi,
  "is none": /\b(?:is|are|was|were) none\b/gi,
  anew: /\banew\b/gi,
  // "a request of git": a git request
  "of git":
    /\b(?:requests?|servers?|clients?|connections?|streams?|versions?|status|messages?|commands?|paths?|tags|frames?|answers?|keys?) of (?:HTTP(?:\/\d(?:\.\d)?)?|git|DNS|MCP|SSH|TLS|S3|npm|Redis|MySQL|PostgreSQL)(?![\w'’/-]|\.\w|,? (?:and|or) |, [A-Z]| (?:servers?|calls?|hosts?|requests?|records?|fields?|tools?|with)\b)/g,
};

/** Most of each kind for each 10,000 words; a number may only fall. */
const MOST: Record<string, Record<string, number>> = {
  comments: {
    "what is": 0.5,
    tell: 0.5,
    "those of": 0.5,
    nobody: 0.5,
    "is none": 0.5,
    anew: 0.5,
    "of git": 0,
  },
  strings: {
    "what is": 0.8,
    tell: 0.8,
    "those of": 0.5,
    nobody: 0.5,
    "is none": 0.5,
    anew: 0.5,
    "of git": 0,
  },
  docs: { "what is": 1.5, tell: 0.5, "those of": 0.5, nobody: 0.5, "is none": 0.5, anew: 0.5, "of git": 0 },
};

const COMMENT = /\/\*[\s\S]*?\*\/|(?<![:"'`/])\/\/[^\n]*/g;
const TEXT = /"(?:[^"\\\n]|\\.)* (?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)* (?:[^`\\]|\\.)*`/g;

Deno.test("comments, texts and docs have no more of the counted phrases than before", async () => {
  const code = await read(
    (await Promise.all(["lib", "cmd", "ffi", "scripts", "sdk"].map(codeBelow))).flat()
      .filter((path) => !/\/(dist|generated)\//.test(path)),
  );
  const pages = (await filesBelow("docs", /\.md$/)).filter((path) => !path.startsWith("docs/reference/"));
  const texts: Record<string, string> = {
    comments: code.flatMap((text) => text.match(COMMENT) ?? []).join("\n"),
    strings: code.flatMap((text) => text.replace(COMMENT, "").match(TEXT) ?? []).join("\n"),
    docs: (await read(pages)).join("\n").replace(/```[\s\S]*?```/g, ""),
  };
  const found = Object.entries(texts).flatMap(([place, text]) => {
    // Comments that continue on the next line are one text.
    const whole = text.replace(/\n\s*\*/g, " ").replace(/\s+/g, " ");
    const words = whole.split(" ").length;
    return Object.entries(PHRASES).flatMap(([kind, phrase]) => {
      const rate = 10_000 * (whole.match(phrase) ?? []).length / words;
      return rate > MOST[place][kind]
        ? [`${place}, "${kind}": ${rate.toFixed(1)} of ${MOST[place][kind]}`]
        : [];
    });
  });
  assertEquals(found, [], "say it plainly (CONTRIBUTING.md), or lower what is left elsewhere");
});

async function read(paths: string[]): Promise<string[]> {
  return await Promise.all(paths.map((path) => Deno.readTextFile(fromRoot(path))));
}
