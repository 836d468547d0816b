import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type Explained } from "../../../api/routes.ts";
import { EventFields } from "../../../part/fields.tsx";
import { act } from "../../../store/act.ts";
import { text } from "../../../text/en.ts";

/** One event with its decision: the rule and its place, what matched, and what nearly did. */
export function WhyPanel({ session, event }: { session: string; event: string | undefined }) {
  const why = useSignal<Explained | undefined>(undefined);
  useEffect(() => {
    why.value = undefined;
    if (event) act(async () => why.value = await api.why(session, event));
  }, [session, event]);
  return (
    <section class="why" aria-label={text.timeline.why} tabIndex={0}>
      {why.value ? <Why why={why.value} /> : <p class="hint">{text.timeline.select}</p>}
    </section>
  );
}

function Why({ why: { event, decision, findings } }: { why: Explained }) {
  const words = text.timeline;
  return (
    <>
      {decision && (
        <>
          <h2>{words.decided(decision.decision, decision.rule.name || decision.rule.id)}</h2>
          <dl>
            <Entry name={words.reason} value={decision.rule.reason} />
            <Entry
              name={words.place}
              value={decision.rule.file && words.at(decision.rule.file, decision.rule.line)}
            />
            <Entry
              name={words.matched}
              value={decision.matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`)
                .join("\n")}
            />
            <Entry
              name={words.nearMisses}
              value={decision.near_misses.map(({ rule_id, failed }) => `${rule_id}: ${failed}`).join("\n")}
            />
            <Entry name={words.remedy} value={decision.remedy} />
          </dl>
        </>
      )}
      {findings.length > 0 && (
        <>
          <h2>{words.findings}</h2>
          <ul>
            {findings.map(({ finding_id, severity, title }) => (
              <li key={finding_id}>{`${severity}: ${title}`}</li>
            ))}
          </ul>
        </>
      )}
      <EventFields value={event} />
    </>
  );
}

function Entry({ name, value }: { name: string; value: string | undefined }) {
  if (!value) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
