import { useSignal } from "@preact/signals";
import { api, type RuleDraft } from "../../api/routes.ts";
import { textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";

/** Samples of events to try, by type. */
const SAMPLES: Record<string, Record<string, unknown>> = {
  "http.request": {
    http: {
      request: {
        method: "GET",
        scheme: "https",
        host: "example.com",
        port: 443,
        path: "/",
        query: "",
        headers: {},
      },
    },
  },
  "dns.query": { dns: { request: { qname: "example.com", qtype: "A" } } },
  "mcp.tool_call": { mcp: { request: { server_id: "server", tool_name: "tool", arguments: {} } } },
  "model.call": { model: { request: { provider: "anthropic", model: "claude" } } },
  "file.activity": { file: { activity: { operation: "write", path: "/root/.bashrc" } } },
  "process.exec": {
    process: { activity: { operation: "exec", executable: "/usr/bin/curl", command: "curl" } },
  },
};

const TYPES = Object.keys(SAMPLES);

/** Asks the rules about one event, which happens nowhere. @param read a rule that is not saved, to decide too */
export function Simulator({ profile, read }: { profile: string; read?: () => RuleDraft }) {
  const event = useSignal(sampleOf(TYPES[0]));
  const answer = useSignal<string[]>([]);
  const words = text.rules.simulator;
  const run = async () => {
    try {
      const { decision, findings, failures } = await api.evaluate(profile, JSON.parse(event.value), read?.());
      answer.value = [
        words.decided(decision.decision, decision.rule.id, decision.remedy),
        ...decision.near_misses.map(({ rule_id, failed }) => words.nearMiss(rule_id, failed)),
        ...findings.map(({ severity, title }) => words.finding(severity, title)),
        ...failures.map(({ rule_id, message }) => words.failure(rule_id, message)),
      ];
    } catch (error) {
      answer.value = [error instanceof SyntaxError ? words.notJson : textOf(error)];
    }
  };
  return (
    <section aria-label={read ? words.draft : words.title}>
      {!read && <h2>{words.title}</h2>}
      <p>
        <label>
          {words.sample}{" "}
          <select onChange={({ currentTarget }) => event.value = sampleOf(currentTarget.value)}>
            {TYPES.map((type) => <option key={type}>{type}</option>)}
          </select>
        </label>
      </p>
      <textarea
        class="wide"
        aria-label={words.event}
        rows={12}
        spellcheck={false}
        value={event.value}
        onInput={({ currentTarget }) => event.value = currentTarget.value}
      />
      <div class="buttons">
        <button type="button" onClick={run}>{words.decide}</button>
      </div>
      <div role="status">{answer.value.map((line, at) => <p key={at}>{line}</p>)}</div>
    </section>
  );
}

function sampleOf(type: string): string {
  return JSON.stringify({ common: { event_type: type }, ...SAMPLES[type] }, undefined, 2);
}
