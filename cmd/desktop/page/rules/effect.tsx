import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, type RuleDraft, type RuleEffect } from "../../api/routes.ts";
import { Table } from "../../part/table.tsx";
import { timeOf } from "../../part/time.ts";
import { textOf } from "../../store/act.ts";
import { text } from "../../text/en.ts";

interface Props {
  profile: string;
  read: () => RuleDraft;
  /** the session to try it on, at once; absent: the last one of the profile, on demand */
  session?: string;
}

/** Shows, event by event, how a draft would have changed a session. */
export function DraftEffect({ profile, read, session }: Props) {
  const said = useSignal("");
  const effect = useSignal<RuleEffect | undefined>(undefined);
  const words = text.rules.effect;
  const run = async () => {
    said.value = text.common.loading;
    effect.value = undefined;
    try {
      const id = session ??
        (await api.sessions()).sessions.find(({ profile_id }) => profile_id === profile)?.id;
      if (id === undefined) return void (said.value = words.none);
      const answer = await api.tryRule(profile, { ...read(), session: id });
      effect.value = answer.effect;
      said.value = saidOf(answer.effect);
    } catch (error) {
      said.value = error instanceof SyntaxError ? text.rules.editor.notJson : textOf(error);
    }
  };
  useEffect(() => void (session !== undefined && run()), []);
  return (
    <section aria-label={words.title}>
      <button type="button" onClick={run}>{session === undefined ? words.last : words.again}</button>
      <p role="status">{said.value}</p>
      {effect.value && effect.value.differences.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label={words.table}>
          <Table label={words.table} head={[words.time, words.event, words.before, words.after]}>
            {effect.value.differences.map(({ event_id, timestamp_unix_ms, subject, before, after }) => (
              <tr key={event_id}>
                <td>{timeOf(timestamp_unix_ms)}</td>
                <th scope="row">{subject}</th>
                <td>{words.by(before)}</td>
                <td>{words.by(after)}</td>
              </tr>
            ))}
          </Table>
        </div>
      )}
    </section>
  );
}

function saidOf(effect: RuleEffect | undefined): string {
  const words = text.rules.effect;
  if (effect === undefined) return words.invalid;
  if (effect.different === 0) return words.same(effect.decided);
  return words.differ(effect.different, effect.decided, effect.truncated);
}
